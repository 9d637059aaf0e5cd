//go:build system

package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// An h2specReport is a report of h2spec in JUnit's format.
type h2specReport struct {
	Suites []struct {
		Section string `xml:"package,attr"`
		Cases   []struct {
			Title   string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// h2spec runs some sections of h2spec, or all, with a path of requests. It returns the titles of the cases that fail,
// by section and number.
func h2spec(s transported, path string, sections ...string) (failed map[string]string, total int, err error) {
	file := filepath.Join(s.t.TempDir(), "report.xml")
	args := append([]string{"--strict", "--host", "127.0.0.1", "--port", s.port(), "--path", path, "--junit-report", file}, sections...)
	if s.secure {
		args = append(args, "--tls", "--insecure")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), clientPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "h2spec", args...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return nil, 0, fmt.Errorf("%w: make need installs it", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, fmt.Errorf("%w\n%s", err, out)
	}
	var report h2specReport
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, 0, err
	}
	failed = map[string]string{}
	for _, suite := range report.Suites {
		total += len(suite.Cases)
		for i, c := range suite.Cases {
			if c.Failure != nil || c.Error != nil {
				failed[suite.Section+"/"+strconv.Itoa(i+1)] = c.Title
			}
		}
	}
	return failed, total, nil
}

// always reports whether a case fails three times in a row: some cases depend on timing.
func (s transported) always(path, section string) bool {
	s.t.Helper()
	for range 3 {
		failed, total, err := h2spec(s, path, section)
		fatal(s.t, err)
		if total != 1 {
			s.t.Fatalf("%d cases of h2spec in %s: want 1", total, section)
		}
		if len(failed) == 0 {
			return false
		}
	}
	return true
}

// The inline transport passes every case of h2spec that net/http passes, for requests that it answers itself, and for
// requests that net/http answers.
func TestH2spec(t *testing.T) {
	const cases = 147
	paths := []string{"/rate/x", "/healthz"}
	servers := serveTransports(t, "-m", "1000000000")
	failed := make([]map[string]string, len(servers)*len(paths))
	errs := make([]error, len(failed))
	var running sync.WaitGroup
	for i := range failed {
		running.Go(func() {
			var total int
			if failed[i], total, errs[i] = h2spec(servers[i/len(paths)], paths[i%len(paths)]); errs[i] == nil && total != cases {
				errs[i] = fmt.Errorf("%d cases: want %d", total, cases)
			}
		})
	}
	running.Wait()
	fatal(t, errors.Join(errs...))
	for i := len(failed) / 2; i < len(failed); i++ {
		oracle := i - len(failed)/2
		inline, std, path := servers[i/len(paths)], servers[oracle/len(paths)], paths[i%len(paths)]
		t.Logf("%s, %s: %d cases fail; %s: %d", inline.name(), path, len(failed[i]), std.name(), len(failed[oracle]))
		for section, title := range failed[i] {
			if _, both := failed[oracle][section]; !both && inline.always(path, section) && !std.always(path, section) {
				t.Errorf("%s, %s: %s fails: %s", inline.name(), path, section, title)
			}
		}
	}
}
