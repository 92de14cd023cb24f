# SPDX-License-Identifier: MIT OR Apache-2.0
#
# latebound without a compiler: the static binary, manual pages, completion and units of the tar that `make packages` makes for each architecture.
# Put the tar into the folder files/ beside this recipe.
SUMMARY = "Measures and explains the latencies of a Linux system"
DESCRIPTION = "Tells how late a system can be, why, and what can be done about it: wake-up latencies and their causes, bounds, deferred work."
SECTION = "devel"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "\
    file://share/doc/latebound/licences/MIT.txt;md5=b062798de290a49f303e26aa295095bc \
    file://share/doc/latebound/licences/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57 \
"

SRC_URI = "file://latebound-${PV}-linux-${TARGET_ARCH}.tar.xz"

# Releases before 5.1 unpack into the work folder itself.
UNPACKDIR ??= "${WORKDIR}"
S = "${UNPACKDIR}/latebound-${PV}-linux-${TARGET_ARCH}"

inherit bash-completion systemd

SYSTEMD_SERVICE:${PN} = "latebound-compact.timer latebound-push.service latebound-serve.service latebound-tune.service"
SYSTEMD_AUTO_ENABLE:${PN} = "disable"

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
# The binary is as it was tested.
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INHIBIT_PACKAGE_STRIP = "1"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    install -D -m 0755 ${S}/bin/latebound ${D}${bindir}/latebound
    install -d ${D}${mandir}/man1
    install -m 0644 ${S}/share/man/man1/*.1 ${D}${mandir}/man1/
    install -D -m 0644 ${S}/share/bash-completion/completions/latebound ${D}${datadir}/bash-completion/completions/latebound
    if ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'true', 'false', d)}; then
        install -d ${D}${systemd_system_unitdir}
        for unit in ${S}/lib/systemd/system/*; do
            sed -e 's:=/usr/local/bin/:=${bindir}/:' $unit > ${D}${systemd_system_unitdir}/$(basename $unit)
        done
    fi
}

FILES:${PN} += "${systemd_system_unitdir}"
