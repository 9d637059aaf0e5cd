package redistest

import (
	"slices"
	"sync"
	"time"
)

// An Answer is a decision, as a caller of a Load sees it.
type Answer struct {
	Caller  int
	Asked   time.Duration // since the Load began
	Took    time.Duration
	Granted bool
	Step    string // on what the decision is based, as the caller tells it
}

func (a Answer) end() time.Duration { return a.Asked + a.Took }

// A Load is callers that ask for one token of a key again and again. Its count of decisions is
// independent of the limiters under test.
type Load struct {
	Began time.Time

	stop  chan struct{}
	group sync.WaitGroup

	mu      sync.Mutex // guards what follows
	answers []Answer
	err     error
}

// StartLoad starts callers, which pause between calls. The function ask is called with the
// index of a caller. An error ends the Load.
func StartLoad(callers int, pause time.Duration, ask func(caller int) (granted bool, step string, err error)) *Load {
	l := &Load{Began: time.Now(), stop: make(chan struct{})}
	for i := range callers {
		l.group.Go(func() {
			for l.once(i, ask) {
				select {
				case <-l.stop:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	return l
}

func (l *Load) once(caller int, ask func(int) (bool, string, error)) bool {
	asked := l.Now()
	granted, step, err := ask(caller)
	took := l.Now() - asked
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.answers = append(l.answers, Answer{caller, asked, took, granted, step})
	return l.err == nil
}

// Now returns the time since the Load began.
func (l *Load) Now() time.Duration { return time.Since(l.Began) }

// Stop ends the Load when all callers have their answers, and returns the first error.
func (l *Load) Stop() error {
	close(l.stop)
	l.group.Wait()
	return l.err
}

// Answers returns the answers to what was asked in a time.
func (l *Load) Answers(from, until time.Duration) (answers Answers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.Asked >= from && a.Asked < until {
			answers = append(answers, a)
		}
	}
	return answers
}

// Answers are the decisions of a span of time.
type Answers []Answer

// Took returns a quantile of the times that answers took: 0.5 is the median, 1 the maximum.
func (a Answers) Took(quantile float64) time.Duration {
	if len(a) == 0 {
		return 0
	}
	took := make([]time.Duration, len(a))
	for i := range a {
		took[i] = a[i].Took
	}
	slices.Sort(took)
	return took[min(int(quantile*float64(len(took))), len(took)-1)]
}

// Steps counts the answers of each step.
func (a Answers) Steps() map[string]int {
	steps := map[string]int{}
	for i := range a {
		steps[a[i].Step]++
	}
	return steps
}

// Apart returns the time in which the last answers of some instances had a step, and those of
// others did not. The instance of a caller is its index modulo their number.
func (a Answers) Apart(step string, instances int) (total time.Duration) {
	off := make([]bool, instances) // the last answer did not have the step
	count, last := 0, time.Duration(0)
	for _, a := range slices.SortedFunc(slices.Values(a), func(a, b Answer) int { return int(a.end() - b.end()) }) {
		if count > 0 && count < instances {
			total += a.end() - last
		}
		last = a.end()
		if was := &off[a.Caller%instances]; *was != (a.Step != step) {
			if *was = !*was; *was {
				count++
			} else {
				count--
			}
		}
	}
	return total
}

// Covered returns the time that the answers cover, without pauses that are longer than a gap.
func (a Answers) Covered(gap time.Duration) (total time.Duration) {
	until := time.Duration(-1 << 62)
	for _, a := range slices.SortedFunc(slices.Values(a), func(a, b Answer) int { return int(a.Asked - b.Asked) }) {
		from := a.Asked
		if from-until < gap {
			from = until
		}
		total += max(a.end()-from, 0)
		until = max(until, a.end())
	}
	return total
}

// Excess returns the most tokens that were granted beyond a rate in any span of time. A token
// was granted between the question and the answer: so an excess is certain, and Excess is
// never above the truth.
func (a Answers) Excess(perSecond float64) (most float64) {
	var granted Answers
	var slack time.Duration
	for _, answer := range a {
		if answer.Granted {
			granted, slack = append(granted, answer), max(slack, answer.Took)
		}
	}
	slices.SortFunc(granted, func(a, b Answer) int { return int(a.end() - b.end()) })
	refill := func(d time.Duration) float64 { return perSecond * d.Seconds() }
	best := 0.0 // of the spans that begin with a token before this one
	for i, answer := range granted {
		best = max(best, refill(answer.end())-float64(i))
		most = max(most, float64(i+1)-refill(answer.end()+slack)+best)
	}
	return most
}
