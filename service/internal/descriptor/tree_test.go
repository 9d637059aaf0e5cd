package descriptor_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// Find walks as envoyproxy/ratelimit does: the entry, then wildcards, then the key alone, and
// never back.
func TestFind(t *testing.T) {
	var tree descriptor.Tree
	edge, _ := tree.Domain("edge")
	edge.Add("path", "/a", 0)
	edge.Add("path", "/a*", 1)
	edge.Add("path", "/*", 2)
	edge.Add("path", "", 3)
	edge.Add("free", "yes", descriptor.None)
	edge.Add("free", "", 4)
	method, _ := edge.Add("method", "GET", 5)
	method.Add("path", "/a", 6)
	anyMethod, _ := edge.Add("method", "", descriptor.None)
	anyMethod.Add("path", "", 7)
	edge.Add("user*", "", 8)
	for _, tt := range []struct {
		rule    string
		entries entries
		want    int
	}{
		{"the exact entry is before wildcards", entries{{"path", "/a"}}, 0},
		{"the first wildcard", entries{{"path", "/ab"}}, 1},
		{"a later wildcard", entries{{"path", "/b"}}, 2},
		{"the key alone", entries{{"path", "b"}}, 3},
		{"the key alone, without a value", entries{{"path", ""}}, 3},
		{"an entry without a limit", entries{{"free", "yes"}}, descriptor.None},
		{"beside it", entries{{"free", "no"}}, 4},
		{"a limit with levels below", entries{{"method", "GET"}}, 5},
		{"the level below", entries{{"method", "GET"}, {"path", "/a"}}, 6},
		{"no way back to the key alone", entries{{"method", "GET"}, {"path", "/b"}}, descriptor.None},
		{"the key alone, and below", entries{{"method", "PUT"}, {"path", "/b"}}, 7},
		{"a level without a limit", entries{{"method", "PUT"}}, descriptor.None},
		{"too many entries", entries{{"path", "/a"}, {"path", "/a"}}, descriptor.None},
		{"a wildcard in the key", entries{{"user_id", "7"}}, 8},
		{"key and value are one text", entries{{"path_/a", "b"}}, 1},
		{"also for the key alone", entries{{"method_GET", ""}}, 5},
		{"no entries", nil, descriptor.None},
		{"another key", entries{{"none", ""}}, descriptor.None},
	} {
		if got, known := tree.Find("edge", tt.entries); got != tt.want || !known {
			t.Errorf("%s: %q: %d, %v: want %d", tt.rule, tt.entries, got, known, tt.want)
		}
	}
	if _, known := tree.Find("other", nil); known {
		t.Error("a domain that the tree has not")
	}
	if _, fresh := tree.Domain("edge"); fresh {
		t.Error("a domain twice")
	}
	if _, fresh := edge.Add("path", "/a", 9); fresh {
		t.Error("a level twice")
	}
	if got, _ := tree.Find("edge", entries{{"path", "/a"}}); got != 0 {
		t.Error("a level that is added twice has changed")
	}
}
