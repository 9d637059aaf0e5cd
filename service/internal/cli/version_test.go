package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.time", Value: "2026-11-29T01:32:09Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for want, info := range map[string]*debug.BuildInfo{
		"weir v1.2.3 (commit 0123abc of 2026-11-29T01:32:09Z, modified, go1.26, " + platform + ")": info,
		"weir (devel) (commit unknown, " + runtime.Version() + ", " + platform + ")":               {},
	} {
		if got := version("weir", info); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}
