package redistest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redislink"
)

// A Campaign kills TrialInstances instances and their server at random, and starts them again.
// It has what callers have observed meanwhile.
type Campaign struct {
	Began   time.Time
	Answers Answers // of callers that take tokens of one key, with the limit of a trial
	Holds   []Hold  // of a lock

	absences []absence // the first is none
}

// An absence is one of the server.
type absence struct {
	from, until time.Duration // since the campaign began
	restarts    int           // of instances, until the next absence
}

// Run kills and starts for a time. The function restart kills an instance and starts it again.
func (c *Campaign) Run(server *Server, length time.Duration, restart func(instance int)) {
	c.absences = make([]absence, 1)
	for time.Since(c.Began) < length {
		time.Sleep(200*time.Millisecond + rand.N(800*time.Millisecond))
		if i := rand.N(TrialInstances + 1); i < TrialInstances {
			restart(i)
			c.absences[len(c.absences)-1].restarts++
			continue
		}
		from := time.Since(c.Began)
		server.Kill()
		time.Sleep(rand.N(600 * time.Millisecond))
		server.Run()
		c.absences = append(c.absences, absence{from: from, until: time.Since(c.Began)})
	}
}

// CheckHolds fails the test if the lock had two holders for longer than most.
func (c *Campaign) CheckHolds(t *testing.T, most time.Duration) {
	t.Helper()
	overlap, backward := Overlap(c.Holds)
	t.Logf("%d holds of the lock, the longest overlap %v", len(c.Holds), overlap)
	if overlap > most || backward > 0 || len(c.Holds) == 0 {
		t.Errorf("%d holds, an overlap of %v, want at most %v, %d tokens that go back", len(c.Holds), overlap, most, backward)
	}
}

// CheckTokens checks each time from one absence to the next, for a number of bursts and for the
// shares of instances that have started. Until all instances know that the server is back, their
// shares come in addition to its decisions.
func (c *Campaign) CheckTokens(t *testing.T, bursts float64) {
	t.Helper()
	for i, a := range c.absences {
		end := 1000 * time.Hour
		if i+1 < len(c.absences) {
			end = c.absences[i+1].from
		}
		var answers, degraded Answers
		for _, answer := range c.Answers {
			if answer.Asked < a.from || answer.Asked >= end {
				continue
			}
			answers = append(answers, answer)
			if answer.Step != "exact" && answer.Asked > a.until {
				degraded = append(degraded, answer)
			}
		}
		apart := 3*redislink.DefaultTimeout + degraded.Covered(redislink.DefaultTimeout)
		most := TrialBurst*(bursts+float64(a.restarts)/TrialInstances) + TrialRate*apart.Seconds()*(TrialInstances-1)/TrialInstances
		excess := answers.Excess(TrialRate)
		t.Logf("away from %v to %v, %d restarts: %d answers, the slowest after %v: %.1f tokens beyond the rate, at most %.1f",
			a.from, a.until, a.restarts, len(answers), answers.Took(1), excess, most)
		if excess > most {
			t.Errorf("%.1f tokens beyond the rate, want at most %.1f", excess, most)
		}
	}
	t.Logf("%d absences; in the whole campaign, %.1f tokens beyond the rate", len(c.absences)-1, c.Answers.Excess(TrialRate))
}
