package redisscript

import (
	"os"
	"testing"
)

// These scripts are as released. A change of one keeps the released text beside those of buckets,
// and comes with a test in package redislimit that both work on the same keys.
func TestReleasedScripts(t *testing.T) {
	for name, script := range map[string]string{"leases": Leases, "leaves": Leaves, "nodes": Nodes} {
		released, err := os.ReadFile("testdata/" + name + "-f6d7ae14.lua")
		if err != nil {
			t.Fatal(err)
		}
		if script != string(released) {
			t.Errorf("%s.lua is not the released one", name)
		}
	}
}
