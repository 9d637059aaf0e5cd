package rulefile

import "testing"

func TestHash(t *testing.T) {
	a := Hash([]byte("a"), []byte("b"))
	if len(a) != 12 || a != Hash([]byte("a"), []byte("b")) || a == Hash([]byte("ab")) || a == Hash([]byte("ab"), nil) ||
		a == Hash([]byte("a\x00\x00\x00\x00\x00\x00\x00\x00b")) {
		t.Errorf("%q", a)
	}
}
