package docs

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/pagetest"
)

// A problem in the code has a status, a reason and a detail. Those of httplimit for a weir.Reason are calls of two functions.
var (
	problems = regexp.MustCompile(`problem\.New\((http\.Status\w+|\d+), problem\.\w+, ("\w+"|tally\.\w+),\s+"([^"]+)"`)
	rejected = regexp.MustCompile(`(unavailable|overQuota)\((weir\.\w+), "([^"]+)"`)
	humps    = regexp.MustCompile(`([a-z])([A-Z])`)
)

// docs/errors.md has the problems with which httplimit and weir proxy answer.
func TestErrors(t *testing.T) {
	rows := map[string]string{} // details by status and reason
	for _, dir := range []string{"httplimit", "service/internal/proxy", "service/internal/proxy/*"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, files, err)
		}
		for _, file := range files {
			text := read(t, strings.TrimPrefix(file, root))
			for _, m := range append(problems.FindAllStringSubmatch(text, -1), rejected.FindAllStringSubmatch(text, -1)...) {
				at := fmt.Sprintf("| %s | `%s` |", status(m[1]), reason(m[2]))
				if rows[at] == "" {
					rows[at] = m[3]
				}
			}
		}
	}
	if len(rows) < 20 {
		t.Errorf("%d problems", len(rows))
	}
	table := "| status | reason | detail |\n|---|---|---|\n"
	for _, at := range slices.Sorted(maps.Keys(rows)) {
		table += at + " " + rows[at] + " |\n"
	}
	pagetest.Keep(t, filepath.Join(root, "docs", "errors.md"), "problems", table, *update)
}

// status returns the number of a status in code, such as http.StatusBadGateway, or of a function.
func status(code string) string {
	switch code {
	case "unavailable":
		code = "http.StatusServiceUnavailable"
	case "overQuota":
		code = "http.StatusTooManyRequests"
	}
	for number := range 600 {
		if text := http.StatusText(number); text != "" && code == "http.Status"+strings.ReplaceAll(text, " ", "") {
			return fmt.Sprint(number)
		}
	}
	return code
}

// reason returns the spelling of a constant, such as weir.QueueFull, or of a literal.
func reason(code string) string {
	_, name, ok := strings.Cut(code, ".")
	if !ok {
		return strings.Trim(code, `"`)
	}
	return strings.ToLower(humps.ReplaceAllString(name, "${1}_$2"))
}
