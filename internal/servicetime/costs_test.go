package servicetime

import (
	"math"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01*want {
		t.Errorf("%s: %.4f: want %.4f", what, got, want)
	}
}

// A cost is relative to the mean of all work; a single route, or one of which little is known, costs one.
func TestCosts(t *testing.T) {
	var c Costs
	for range 100 {
		c.Ended(1, 10*time.Millisecond)
	}
	near(t, "a single route", c.Of(1), 1)
	c.Ended(2, time.Second)
	near(t, "hardly known", c.Of(2), 1)
	near(t, "not known", c.Of(3), 1)

	c = Costs{}
	for range 100 {
		c.Ended(1, 10*time.Millisecond)
		c.Ended(2, 190*time.Millisecond)
	}
	near(t, "cheap", c.Of(1), 0.1)
	near(t, "dear", c.Of(2), 1.9)
}

// Streams cost one, and hardly change what other routes cost.
func TestCostsOfStreams(t *testing.T) {
	var c Costs
	for i := range 2000 {
		c.Ended(1, 10*time.Millisecond)
		c.Ended(2, 20*time.Millisecond)
		if i%100 == 50 {
			c.Ended(3, time.Hour)
		}
	}
	near(t, "streams", c.Of(3), 1)
	near(t, "dear beside cheap", c.Of(2)/c.Of(1), 2)
	if c.Of(1) < 0.4 {
		t.Errorf("cheap: %.2f", c.Of(1))
	}
}

// Work that takes no time at first does not hide what the others cost.
func TestCostsOfInstantWork(t *testing.T) {
	var c Costs
	for range 5 {
		c.Ended(1, 0)
	}
	for range 1000 {
		c.Ended(1, 0)
		c.Ended(2, 40*time.Millisecond)
	}
	near(t, "beside instant work", c.Of(2), 2)
	near(t, "instant work", c.Of(1), costLeast)
}

// A route without requests is forgotten, and so is its cost.
func TestCostsForgets(t *testing.T) {
	var c Costs
	for range 100 {
		c.Ended(1, 10*time.Millisecond)
		c.Ended(2, 30*time.Millisecond)
	}
	for range 20 * costMemory {
		c.Ended(1, 10*time.Millisecond)
	}
	near(t, "the other route", c.Of(1), 1)
	if len(c.routes) != 1 {
		t.Errorf("%d routes", len(c.routes))
	}
}
