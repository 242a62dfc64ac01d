# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Rankmark(CargoPackage):
    """Rankmark measures, explains and compares how fast distributed deep learning runs:
    collectives, matrix primitives, training, memory and hardware, with intervals and a check of
    every result. It opens MPI, NCCL and CUDA at run time, so it depends on none of them."""

    homepage = "https://github.com/rankmark/rankmark"
    git = "https://github.com/rankmark/rankmark.git"

    license("MIT OR Apache-2.0", checked_by="rankmark")

    # A release has its own line: version("0.1.0", tag="v0.1.0", commit="...").
    version("main", branch="main")

    variant("nsys", default=True, description="Read exports of Nsight Systems (compiles SQLite)")

    depends_on("rust@1.95:", type="build")
    depends_on("c", type="build")

    # CUDA, MPI and NCCL are libraries of Linux with glibc.
    requires("platform=linux", msg="Rankmark runs on Linux")

    @property
    def build_directory(self):
        return join_path(self.stage.source_path, "crates", "rankmark")

    @property
    def build_args(self):
        args = ["--locked"]
        if self.spec.satisfies("~nsys"):
            args.append("--no-default-features")
        return args

    @run_after("install")
    def install_man_pages_and_completions(self):
        rankmark = Executable(self.prefix.bin.rankmark)
        mkdirp(self.prefix.share.man.man1)
        rankmark("man", self.prefix.share.man.man1)
        for shell, folder, name in [
            ("bash", "bash-completion/completions", "rankmark"),
            ("fish", "fish/vendor_completions.d", "rankmark.fish"),
            ("zsh", "zsh/site-functions", "_rankmark"),
        ]:
            script = rankmark("completions", shell, output=str)
            folder = join_path(self.prefix.share, *folder.split("/"))
            mkdirp(folder)
            with open(join_path(folder, name), "w", encoding="utf-8") as file:
                file.write(script)

    @property
    def check_args(self):
        return ["--locked", "--package", "rankmark", "--lib"]
