package deploy_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// An action is a composite action of GitHub.
type action struct {
	Name, Description string
	Inputs            map[string]struct {
		Description string
		Default     string
		Required    bool
	}
	Runs struct {
		Using string
		Steps []struct {
			Name, Shell, Run string
			Env              map[string]string
		}
	}
	env []string
}

// step runs a step of the action as a runner does, in a folder.
func (a *action) step(t *testing.T, n int, dir string, inputs map[string]string) (said string, ok bool) {
	t.Helper()
	s := a.Runs.Steps[n]
	if s.Shell != "bash" {
		t.Fatalf("%s: %s", s.Name, s.Shell)
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", s.Run)
	cmd.Dir, cmd.Env = dir, a.env
	for name, value := range s.Env {
		value = regexp.MustCompile(`\$\{\{ inputs\.(\w+) \}\}`).ReplaceAllStringFunc(value, func(of string) string {
			input := strings.Fields(of)[1][len("inputs."):]
			declared, known := a.Inputs[input]
			if !known {
				t.Fatalf("%s: there is no input %s", s.Name, input)
			}
			if given, ok := inputs[input]; ok {
				return given
			}
			return declared.Default
		})
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// The action installs a release, and its rules are checked: mistakes are shown beside their lines.
func TestAction(t *testing.T) {
	text, err := os.ReadFile("../action.yml")
	must(t, err)
	var a action
	must(t, yaml.UnmarshalStrict(text, &a))
	if a.Runs.Using != "composite" || len(a.Runs.Steps) != 2 {
		t.Fatalf("%+v", a.Runs)
	}

	releases := t.TempDir()
	weir, err := binary()
	must(t, err)
	archive := "weir_linux_" + runtime.GOARCH + ".tar.gz"
	for _, of := range []string{"latest/download", "download/v0.9.0"} {
		must(t, os.MkdirAll(filepath.Join(releases, of), 0o755))
		run(t, filepath.Join(releases, of), "tar", "-czf", archive, "-C", filepath.Dir(weir), filepath.Base(weir))
		sums := run(t, filepath.Join(releases, of), "sha256sum", archive)
		must(t, os.WriteFile(filepath.Join(releases, of, "SHA256SUMS"), []byte(sums), 0o644))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(releases)))
	defer server.Close()
	temp := t.TempDir()
	paths := filepath.Join(temp, "path")
	a.env = []string{"PATH=" + os.Getenv("PATH"), "RUNNER_OS=Linux", "RUNNER_ARCH=" + map[string]string{"amd64": "X64", "arm64": "ARM64"}[runtime.GOARCH],
		"RUNNER_TEMP=" + temp, "GITHUB_PATH=" + paths}
	for _, version := range []string{"v0.9.0", "latest"} {
		if said, ok := a.step(t, 0, temp, map[string]string{"releases": server.URL, "version": version}); !ok {
			t.Fatalf("%s: %s", version, said)
		}
	}
	added, err := os.ReadFile(paths)
	must(t, err)
	first, _, _ := strings.Cut(string(added), "\n")
	a.env[0] = "PATH=" + first + ":" + os.Getenv("PATH")

	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "my rules"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "my rules", "a.yaml"), []byte("rules: [{key: a, rate: 1/h}]\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "my rules", "b.yaml"), []byte("rules: [{key: b, rate: 1/h}]\n"), 0o600))
	if said, ok := a.step(t, 1, dir, map[string]string{"files": "my rules/*.yaml\nmy rules\n"}); !ok || strings.Count(said, "1 rules") != 2 || !strings.Contains(said, "2 rules") {
		t.Errorf("%s: want three reports", said)
	}
	must(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("rules:\n- {key: a, rat: 1/h}\n- {key: b, rate: 1}\n"), 0o600))
	said, ok := a.step(t, 1, dir, map[string]string{"files": "bad.yaml\nmy rules/a.yaml"})
	if ok || !strings.Contains(said, "\n::error file=bad.yaml,line=2,col=12::rules[0].rat: unknown field") || !strings.Contains(said, "\n::error file=bad.yaml,line=3,col=") ||
		!strings.Contains(said, "1 rules") {
		t.Errorf("%s: want the mistakes, and the report of the file behind it", said)
	}

	toy := t.TempDir() // it says how it was called
	must(t, os.WriteFile(filepath.Join(toy, "weir"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755))
	a.env[0] = "PATH=" + toy + ":" + os.Getenv("PATH")
	if said, ok := a.step(t, 1, dir, map[string]string{"files": "bad.yaml", "against": "of today.rec"}); !ok || said != "<check><--against=of today.rec><bad.yaml>\n" {
		t.Errorf("%s: want the recording", said)
	}

	run(t, filepath.Join(releases, "download/v0.9.0"), "tar", "-czf", archive, "-C", toy, "weir")
	if said, ok := a.step(t, 0, t.TempDir(), map[string]string{"releases": server.URL, "version": "v0.9.0"}); ok {
		t.Errorf("%s: an archive with another checksum is installed", said)
	}
}
