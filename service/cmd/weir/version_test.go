//go:build !race

package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Setenv("WEIR_VERSION", "1") // an image may have it
	code, stdout, stderr := weir(t, "--version")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "weir ") || !strings.Contains(stdout, runtime.Version()) || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%d, %q, %q: want one line with the Go version", code, stdout, stderr)
	}
	if code, stdout, _ := weir(t, "top", "--help"); code != 0 || strings.HasPrefix(stdout, "weir ") {
		t.Errorf("%d, %q: want WEIR_VERSION to be ignored", code, stdout)
	}
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for want, info := range map[string]*debug.BuildInfo{
		"weir v1.2.3 (commit 0123abc, modified, go1.26, " + platform + ")":           info,
		"weir (devel) (commit unknown, " + runtime.Version() + ", " + platform + ")": {},
	} {
		if got := version(info); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}
