package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version describes the build: version, commit, Go version and platform.
func version(info *debug.BuildInfo) string {
	commit, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return fmt.Sprintf("weir %s (commit %s%s, %s, %s/%s)",
		cmp.Or(info.Main.Version, "(devel)"), commit, modified, cmp.Or(info.GoVersion, runtime.Version()), runtime.GOOS, runtime.GOARCH)
}

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}
