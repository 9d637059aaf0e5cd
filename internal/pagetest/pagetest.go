// Package pagetest keeps the generated parts of documents equal to what the code says.
package pagetest

import (
	"os"
	"strings"
	"testing"
)

// Keep fails t if a part of a document differs from want. If update is set, it writes want there instead. The
// document has the part between the lines <!-- generated: PART --> and <!-- end of PART -->.
func Keep(t *testing.T, file, part, want string, update bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- generated: "+part+" -->\n", "<!-- end of "+part+" -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Errorf("%s has no place for %s", file, part)
	case got == want:
	case !update:
		t.Errorf("%s: %s is not what the code says: run this test with -update", file, part)
	default:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Error(err)
		}
	}
}
