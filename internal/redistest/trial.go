package redistest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// The instances of a trial, and their limit on Key.
const (
	TrialInstances = 3
	TrialRate      = 100 // per second
	TrialBurst     = 42
)

// A TrialInstance is one of several that share a Store, with the limit of a trial.
type TrialInstance struct {
	// Take asks for a token of Key. It tells the step of the ladder.
	Take func() (granted bool, step string, err error)
	// Away reports whether the instance considers the Store away.
	Away func() bool
	// Decisions returns the counts of decisions by step.
	Decisions func() map[string]int
}

// Try puts instances under a load above their limit while their Store has the fault for a span
// of time. It fails the test unless every call is answered, the decisions follow the ladder, and no
// more is granted than docs/redis.md says. The function open connects an instance whose calls have
// a budget, or the default if that is 0; its ladder must be: what it has known for half of the
// span, then its share.
func (f Fault) Try(t *testing.T, engine string, span time.Duration, open func(s *Store, instance int, budget time.Duration) TrialInstance) {
	tr := &trial{T: t, fault: f, store: f.Prepare(t, engine)}
	for i := range TrialInstances {
		budget := time.Duration(0)
		if !tr.degrades(i) {
			budget = patient
		}
		instance := open(tr.store, i, budget)
		Until(t, fmt.Sprintf("the store decides for instance %d", i), func() error {
			if _, step, err := instance.Take(); err != nil || step != "exact" {
				return fmt.Errorf("step %s, %v", step, err)
			}
			return nil
		})
		tr.instances = append(tr.instances, instance)
	}
	tr.run(span)
}

// Budgets of calls: the default, and that of instances for which the store should decide.
const (
	usual   = 50 * time.Millisecond
	patient = 2 * time.Second
)

// A trial is one run of Try.
type trial struct {
	*testing.T
	fault     Fault
	store     *Store
	instances []TrialInstance
	load      *Load
}

// degrades reports whether the fault keeps the store from deciding for an instance in time.
func (tr *trial) degrades(instance int) bool { return tr.fault.Away || instance < tr.fault.Cut }

// budget returns the time that an instance gives the store.
func (tr *trial) budget(instance int) time.Duration {
	if tr.degrades(instance) {
		return usual
	}
	return patient
}

func (tr *trial) run(span time.Duration) {
	counts := make([]map[string]int, TrialInstances)
	for i, instance := range tr.instances {
		counts[i] = instance.Decisions()
	}
	tr.load = StartLoad(8*TrialInstances, 8*time.Millisecond, func(caller int) (bool, string, error) {
		return tr.instances[caller%TrialInstances].Take()
	})
	time.Sleep(span / 2)
	begin := tr.load.Now()
	tr.store.Begin()
	time.Sleep(span)
	for i := range tr.instances {
		Until(tr, fmt.Sprintf("instance %d follows the ladder", i), func() error { return tr.ladder(i, begin) })
	}
	end := tr.load.Now()
	tr.store.End()
	for i := range tr.instances {
		Until(tr, fmt.Sprintf("the store decides for instance %d", i), func() error { return tr.exact(i) })
	}
	recovered := tr.load.Now()
	time.Sleep(span / 2)
	if err := tr.load.Stop(); err != nil {
		tr.Error(err)
	}
	tr.check(begin, end, recovered, counts)
}

// check compares the answers with the bounds of docs/redis.md and with Stats.
func (tr *trial) check(begin, end, recovered time.Duration, counts []map[string]int) {
	before, during, after := tr.load.Answers(0, begin), tr.load.Answers(begin, recovered), tr.load.Answers(recovered, time.Hour)
	all := tr.load.Answers(0, time.Hour)
	excess, most := all.Excess(TrialRate), tr.bound(all)
	tr.Logf("| %s | P99 %.0f, %.0f, %.0f ms before, during, after | slowest %.0f ms | %v | excess %.2f of %.2f bursts | back after %.1f s |", tr.fault.Name,
		ms(before.Took(0.99)), ms(during.Took(0.99)), ms(after.Took(0.99)), ms(all.Took(1)), during.Steps(), excess/TrialBurst, most/TrialBurst, (recovered - end).Seconds())
	if excess > most {
		tr.Errorf("%.1f tokens beyond the rate, want at most %.1f", excess, most)
	}
	for i, instance := range tr.instances {
		answers := tr.answers(i, 0, time.Hour)
		if slowest := answers.Took(1); slowest > 20*tr.budget(i) {
			tr.Errorf("instance %d: an answer after %v of a budget of %v", i, slowest, tr.budget(i))
		}
		counted := instance.Decisions()
		for step, n := range counts[i] {
			if counted[step] -= n; counted[step] == 0 {
				delete(counted, step)
			}
		}
		if steps := answers.Steps(); !maps.Equal(counted, steps) {
			tr.Errorf("instance %d: it counts %v, the callers had %v", i, counted, steps)
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// answers returns those of one instance.
func (tr *trial) answers(instance int, from, until time.Duration) (answers Answers) {
	for _, a := range tr.load.Answers(from, until) {
		if a.Caller%TrialInstances == instance {
			answers = append(answers, a)
		}
	}
	return answers
}

// ladder returns nil if an instance has gone down the steps that the fault leads to: to what it
// knows, then to its share.
func (tr *trial) ladder(instance int, since time.Duration) error {
	var down []string
	for _, a := range tr.answers(instance, since, time.Hour) { // in the order of their ends
		if a.Step != "exact" && !slices.Contains(down, a.Step) {
			down = append(down, a.Step)
		}
	}
	var want []string
	if tr.degrades(instance) {
		want = []string{"known", "share"}
	}
	if !slices.Equal(down, want) {
		return fmt.Errorf("the steps %v, want %v", down, want)
	}
	return nil
}

// exact returns nil if the store decides everything for an instance.
func (tr *trial) exact(instance int) error {
	now := tr.load.Now()
	steps, away := tr.answers(instance, now-200*time.Millisecond, now).Steps(), tr.instances[instance].Away()
	if steps["exact"] == 0 || len(steps) > 1 || away {
		return fmt.Errorf("steps %v, away: %v", steps, away)
	}
	return nil
}

// bound returns how many tokens may be granted beyond the rate. While some instances decide by
// themselves and the store decides for others, their shares come in addition.
func (tr *trial) bound(all Answers) float64 {
	bursts, apart := float64(tr.fault.Bursts), all.Apart("exact", TrialInstances).Seconds()
	switch {
	case tr.fault.Away:
		return bursts*TrialBurst + apart*TrialRate*(TrialInstances-1)/TrialInstances
	case tr.fault.Cut > 0:
		return bursts*TrialBurst + (TrialBurst+apart*TrialRate)*float64(tr.fault.Cut)/TrialInstances
	}
	return bursts * TrialBurst
}
