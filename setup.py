"""The packages map: folders at the top of the tree, installed under the one import name ``aftershock``."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
FOLDERS = ("schemas", "parsers", "pipeline")


def installed_packages() -> dict[str, str]:
    """Map every package of the installed tree to its folder: ``aftershock.parsers`` to ``parsers``, and so on."""
    packages = {"aftershock": "aftershock"}
    for folder in FOLDERS:
        packages[f"aftershock.{folder}"] = folder
        for name in find_packages(str(HERE / folder)):
            packages[f"aftershock.{folder}.{name}"] = f"{folder}/{name.replace('.', '/')}"
    return packages


PACKAGES = installed_packages()

setup(
    name="aftershock",
    version="0.1.0",
    description="Which fault hit which training session, what it cost, and how the recovery went",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=list(PACKAGES),
    package_dir=PACKAGES,
    package_data={
        "aftershock": ["py.typed"],
        "aftershock.schemas.catalogs": ["*.tsv"],
        "aftershock.parsers.training.faults": ["*.tsv"],
        "aftershock.pipeline.pseudonyms": ["*.txt"],
    },
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "pyarrow>=18,<26",
        "numpy>=1.26,<3",
        "scipy>=1.11,<2",
        "hyperscan>=0.7,<1",
        "regex>=2024.11",
        "dateparser>=1.2,<2",
        "orjson>=3.10,<4",
        "zstandard>=0.22,<1",
        "xxhash>=3.4,<4",
        "cramjam>=2.8,<3",
        "google-crc32c>=1.5,<2",
        "urllib3>=2.6,<3",
        "networkx>=3.2,<4",
        "click>=8.1,<9",
        "rich>=13,<16",
        "tomli>=2,<3; python_version < '3.11'",
        "tzdata>=2024.1",
    ],
    extras_require={
        "pandas": ["pandas>=2.1,<4"],
        # Wheels exist for Linux on x86_64 and for macOS; only `make fuzz` needs it.
        "fuzz": ["atheris>=2.3,<4"],
        "dev": [
            "pytest>=8,<10",
            "hypothesis>=6.100,<7",
            "ruff>=0.6,<1",
            "mypy>=1.11,<3",
            "build>=1.2,<2",
            "wheel>=0.43",
            "setuptools>=77,<90",
            "pandas>=2.1,<4",
            "duckdb>=1.1,<3",
            # The published types of the API: what tests feed the Kubernetes format is checked with them.
            "kubernetes>=30,<36",
        ],
    },
    entry_points={"console_scripts": ["aftershock = aftershock.cli:main"]},
)
