package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version describes the build of the program: version, commit with its time, Go version and platform.
func (p *Program) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return version(p.Name, info)
}

func version(name string, info *debug.BuildInfo) string {
	commit, at, modified := "unknown", "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			commit = s.Value
		case s.Key == "vcs.time" && s.Value != "":
			at = " of " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return fmt.Sprintf("%s %s (commit %s%s%s, %s, %s/%s)",
		name, cmp.Or(info.Main.Version, "(devel)"), commit, at, modified, cmp.Or(info.GoVersion, runtime.Version()), runtime.GOOS, runtime.GOARCH)
}
