package redisstore

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redisscript"
)

// The check tries every command of the scripts, and no other.
func TestAttempts(t *testing.T) {
	used := map[string]bool{}
	for _, source := range []string{redisscript.Buckets, redisscript.Leases, redisscript.Leaves, redisscript.Nodes} {
		for _, m := range regexp.MustCompile(`call\('([A-Z]+)'`).FindAllStringSubmatch(source, -1) {
			used[strings.ToLower(m[1])] = true
		}
	}
	want, got := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(attempts))
	if !slices.Equal(got, want) {
		t.Errorf("the check tries %q: want %q", got, want)
	}
}
