//go:build !race

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// A recording becomes CSV, and CSV a recording, of which weirlab advise says the same. What a file lacks is said.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	whole := overloaded()
	clitest.Fatal(t, os.WriteFile(path("a.rec"), whole, 0o600))
	clitest.Fatal(t, os.WriteFile(path("cut.rec"), whole[:len(whole)-5], 0o600))
	code, stdout, stderr := weirlab(t, "convert", path("a.rec"), "-o", path("a.csv"))
	if code != 0 || stdout != "" || stderr != "weirlab convert: "+path("a.rec")+": 8000 requests (recording)\n" {
		t.Fatal(code, stdout, stderr)
	}
	if code, _, stderr = weirlab(t, "convert", path("a.csv"), "--out", path("b.rec")); code != 0 {
		t.Fatal(code, stderr)
	}
	_, want, _ := weirlab(t, "advise", path("a.rec"))
	if code, stdout, _ = weirlab(t, "advise", path("b.rec")); code != 0 || stdout != want {
		t.Errorf("%d, %s\nwant %s", code, stdout, want)
	}
	if _, _, stderr = weirlab(t, "convert", path("cut.rec"), "-o", path("c.csv")); !strings.Contains(stderr, "cut off within a block: the requests before that are read") {
		t.Error(stderr)
	}
	log := "1700000000.500 0.200 \"0.150\" 200 \"GET /orders/1234567 HTTP/1.1\"\nnonsense\n"
	clitest.Fatal(t, os.WriteFile(path("access.log"), []byte(log), 0o600))
	code, stdout, stderr = weirlab(t, "convert", path("access.log"), "--to", "csv")
	if code != 0 || !strings.HasSuffix(stdout, "1700000000.300000000,0.000000000,1700000000.300000000,1700000000.450000000,,1,GET /orders/*,0,success,0\n") {
		t.Errorf("%d, %s", code, stdout)
	}
	if !strings.Contains(stderr, "1 lines are no requests, the first: line 2: ") || !strings.Contains(stderr, "missing: wait; deadline; tenant; requests in flight (counted from starts and ends)") {
		t.Error(stderr)
	}
	for args, want := range map[string]string{
		path("none"):                               "no such file",
		path("a.rec") + " --log-format x":          "--log-format is for --from nginx and envoy",
		path("a.rec") + " --from nginx":            "it has no requests: line 1: ",
		path("access.log") + " --log-format $msec": "has no $request_time",
	} {
		if code, _, stderr := weirlab(t, append([]string{"convert"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s: want %s", args, code, stderr, want)
		}
	}
}
