"""The distribution `midepoch`: both training programs and the library under them."""

from setuptools import setup

setup(
    name="midepoch",
    version="0.1.0",
    description="Fault-tolerant TensorFlow training that resumes in mid-epoch, bit for bit",
    packages=[
        "midepoch",
        "midepoch.tasks",
        "estimator",
        "lowlevel",
        "compare",
        "compare.bench",
        "compare.figures",
        "compare.peers",
    ],
    package_data={"midepoch.tasks": ["digits_data/*", "iris_data/*"]},
    python_requires=">=3.9",
    install_requires=[
        "absl-py",
        # The last release with tf.estimator; it has wheels up to Python 3.11.
        "tensorflow==2.15.1; python_version < '3.12'",
        "tensorflow>=2.16; python_version >= '3.12'",
        "tqdm",
    ],
    extras_require={
        "test": ["pytest", "pytest-xdist", "tensorboard"],
        "report": ["matplotlib"],
        "peers": ["torch", "torchdata"],
    },
    entry_points={
        "console_scripts": [
            "midepoch-estimator=estimator.train:main",
            "midepoch-lowlevel=lowlevel.train:main",
            "midepoch-convert-mnist=midepoch.convert_mnist:main",
            "midepoch-inspect=midepoch.inspect:main",
            "midepoch-compare=compare.__main__:main",
        ]
    },
)
