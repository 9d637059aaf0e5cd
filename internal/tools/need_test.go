package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeApt is an apt-get that fails as many times as there are lines in the file busy, with the
// first of them, and then makes the command widget.
const fakeApt = `#!/bin/sh
dir=$(dirname "$0")
echo "$*" >>"$dir/calls"
if [ -s "$dir/busy" ]; then
	head -n 1 "$dir/busy" >&2
	sed -i 1d "$dir/busy"
	exit 100
fi
`

func TestNeed(t *testing.T) {
	const listsLock = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)\n"
	const frontend = "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n"
	for _, tt := range []struct {
		name, busy, wait string
		fails            bool
		says             string
		calls            int
	}{
		{"apt is free", "", "9", false, "", 2},
		{"apt is in use for a while", listsLock + frontend, "9", false, "== apt is in use: waiting, for up to 9 s", 4},
		{"apt is in use for too long", strings.Repeat(listsLock, 9), "1", true, "Another process has used apt for 1 s", 2},
		{"another error", "E: Unable to locate package widget\n", "9", true, "Unable to locate package widget", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they sleep
			dir := t.TempDir()
			for name, text := range map[string]string{"apt-get": fakeApt, "id": "#!/bin/sh\necho 0\n", "busy": tt.busy} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("./need", "no-such-command-widget", "widget")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NEED_WAIT="+tt.wait)
			out, err := cmd.CombinedOutput()
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			if (err != nil) != tt.fails || !strings.Contains(string(out), tt.says) || strings.Count(string(calls), "\n") != tt.calls {
				t.Errorf("%v: %s\ncalls: %s", err, out, calls)
			}
		})
	}
}
