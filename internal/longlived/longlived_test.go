package longlived_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/longlived"
)

func TestClass(t *testing.T) {
	for most, want := range map[int]int{-1: 0, 0: longlived.DefaultMost, 2: 2} {
		var c longlived.Class
		c.SetMost(most)
		n := 0
		for c.Enter() {
			n++
		}
		if n != want || c.Now() != want || c.Full() != 1 {
			t.Errorf("most %d: %d entered, %d now, full %d times", most, n, c.Now(), c.Full())
		}
		if want > 0 {
			c.Leave()
			if !c.Enter() {
				t.Errorf("most %d: no room after one has left", most)
			}
		}
	}
}

func TestStream(t *testing.T) {
	for kind, want := range map[string]bool{
		"text/event-stream": true, "text/event-stream; charset=utf-8": true, "Text/Event-Stream": true,
		"text/event-streams": false, "text/plain": false, "": false, "application/x; a=text/event-stream": false,
	} {
		if got := longlived.Stream(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
	if longlived.Stream(nil) {
		t.Error("without a Content-Type")
	}
}

type knows time.Duration

func (k knows) Usual() time.Duration { return time.Duration(k) }

func TestUsual(t *testing.T) {
	for limiter, want := range map[any]time.Duration{
		nil: longlived.Unknown, knows(0): longlived.Unknown, knows(1): longlived.Least, knows(time.Minute): time.Minute,
	} {
		if got := longlived.Usual(limiter); got != want {
			t.Errorf("%v: %v: want %v", limiter, got, want)
		}
	}
}
