# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The optional kernel modules of latebound, built for the kernel of the image from the sources in the tar that `make packages` makes.
# Put the tar into the folder files/ beside this recipe.
SUMMARY = "Kernel modules of latebound"
DESCRIPTION = "latebound_defer times every mechanism that defers work, latebound_bound needs no BPF, latebound_tune raises kernel threads at once."
SECTION = "kernel"
LICENSE = "GPL-2.0-only"
LIC_FILES_CHKSUM = "file://../../share/doc/latebound/licences/GPL-2.0-only.txt;md5=b234ee4d69f5fce4486a80fdaf4a4263"

SRC_URI = "file://latebound-${PV}-linux-${TARGET_ARCH}.tar.xz"

# Releases before 5.1 unpack into the work folder itself.
UNPACKDIR ??= "${WORKDIR}"
S = "${UNPACKDIR}/latebound-${PV}-linux-${TARGET_ARCH}/src/latebound-${PV}"

inherit module

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
EXTRA_OEMAKE += "-C ${STAGING_KERNEL_DIR} M=${S}"
MAKE_TARGETS = "modules"
