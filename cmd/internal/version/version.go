// Package version names the build of a program.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Of is the version line of a program: the version of its module, the revision of its sources, with "+" where they
// were modified, and the version of Go.
func Of(program string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return program + " (no build information)"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := cmp.Or(set["vcs.revision"], "unknown")
	if set["vcs.modified"] == "true" {
		revision += "+"
	}
	return fmt.Sprintf("%s %s, revision %s, %s", program, info.Main.Version, revision, info.GoVersion)
}
