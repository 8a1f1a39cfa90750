// Package version names the build of a program.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// Of is the version line of this process.
func Of(program string) string { return Line(program, read()) }

// Build is the build of this process, without advice.
func Build() string { return build(read()) }

func read() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return info
}

// unknown stands in the place of the revision. Neither go run nor go install of a module version stamps one.
const unknown = "unknown"

// Line is the version line of a program. Where there is no revision, it says how to get one. info may be nil.
func Line(program string, info *debug.BuildInfo) string {
	line := program + " " + build(info)
	if strings.HasSuffix(line, unknown) {
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
	revision := cmp.Or(set["vcs.revision"], unknown)
	if set["vcs.modified"] == "true" {
		revision += "+"
	}
	return fmt.Sprintf("%s, %s, revision %s", info.Main.Version, info.GoVersion, revision)
}
