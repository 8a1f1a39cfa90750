package program

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// VersionOf is the version line of this process.
func VersionOf(program string) string { return VersionLine(program, buildInfo()) }

// Build is the build of this process, without advice.
func Build() string { return build(buildInfo()) }

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return info
}

// unknownRevision stands in the place of the revision. Neither go run nor go install of a module version stamps one.
const unknownRevision = "unknown"

// VersionLine is the version line of a program. Where there is no revision, it says how to get one. info may be nil.
func VersionLine(program string, info *debug.BuildInfo) string {
	line := program + " " + build(info)
	if strings.HasSuffix(line, unknownRevision) {
		line += ": go build in a clone of the repository stamps it"
	}
	return line
}

// build is the version of the module, the version of Go, and the revision of the sources, with "+" where they were
// modified.
func build(info *debug.BuildInfo) string {
	if info == nil {
		return "(no build information)"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := cmp.Or(set["vcs.revision"], unknownRevision)
	if set["vcs.modified"] == "true" {
		revision += "+"
	}
	return fmt.Sprintf("%s, %s, revision %s", info.Main.Version, info.GoVersion, revision)
}
