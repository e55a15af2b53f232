"""How all figures look.

Colours are those of Okabe and Ito, which people who see colours differently can tell apart; and nothing is told by colour
alone.
"""

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8A8A8A"

# Stands for the colour of the page's own text, which is dark on a light page and light on a dark one.
TEXT_COLOUR = "#0a0b0c"
STYLE = {
    "text.color": TEXT_COLOUR, "axes.labelcolor": TEXT_COLOUR, "axes.edgecolor": TEXT_COLOUR, "xtick.color": TEXT_COLOUR,
    "ytick.color": TEXT_COLOUR, "axes.facecolor": "none", "figure.facecolor": "none", "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "hatch.linewidth": 0.7, "hatch.color": "#ffffff",
    "svg.hashsalt": "midepoch",
}  # fmt: skip
WIDTH_INCHES = 9.5
