package tools_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// The workflows run actions by their hashes, and may only read but for the jobs that publish.
func TestWorkflows(t *testing.T) {
	publishing := map[string]string{
		"release.yml: release":  "attestations contents id-token", // the page of the release
		"release.yml: registry": "attestations id-token packages",
		"site.yml: deploy":      "id-token pages",
		"scan.yml: codeql":      "security-events", // the page of its findings
	}
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`^(\./\S*|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, action, ok := strings.Cut(line, "uses: "); ok && !pinned.MatchString(strings.TrimSpace(action)) {
				t.Errorf("%s: %s: want a hash and its version", file, strings.TrimSpace(action))
			}
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct{ Permissions map[string]string }
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(workflow.Permissions, map[string]string{"contents": "read"}) {
			t.Errorf("%s: %v: a job may read the contents unless it says more", file, workflow.Permissions)
		}
		for name, job := range workflow.Jobs {
			at, writes := filepath.Base(file)+": "+name, []string{}
			for what, access := range job.Permissions {
				if access != "read" {
					writes = append(writes, what)
				}
			}
			slices.Sort(writes)
			if got := strings.Join(writes, " "); got != publishing[at] {
				t.Errorf("%s may write %q: want %q", at, got, publishing[at])
			}
			delete(publishing, at)
		}
	}
	if len(publishing) > 0 {
		t.Errorf("there is no %v", publishing)
	}
}

// The nightly fuzzing ends before its job is stopped, with half a minute to build each fuzz test.
func TestFuzzTime(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/scan.yml")
	if err != nil {
		t.Fatal(err)
	}
	job := regexp.MustCompile(`(?s)timeout-minutes: (\d+)\n.*make fuzz FUZZTIME=(\w+)\n`).FindSubmatch(text)
	if job == nil {
		t.Fatal("there is no time")
	}
	limit, limitErr := time.ParseDuration(string(job[1]) + "m")
	each, eachErr := time.ParseDuration(string(job[2]))
	found, err := exec.Command("./fuzztests").Output()
	if err := errors.Join(limitErr, eachErr, err); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(found, []byte("\n")); n == 0 || time.Duration(n)*(each+30*time.Second) > limit {
		t.Errorf("%d fuzz tests of %s each do not end within %s", n, each, limit)
	}
}
