package testrig

import (
	"testing"
	"time"
)

// Eventually waits until a condition of other goroutines holds. It fails the test after 20 seconds.
func Eventually(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", condition)
		}
	}
}

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
