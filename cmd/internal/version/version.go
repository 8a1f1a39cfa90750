// Package version says which build a program is.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Of is the line for a program: its module's version, the revision of the
// sources that it was built from, with "+" where they were changed, and the version of Go.
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
