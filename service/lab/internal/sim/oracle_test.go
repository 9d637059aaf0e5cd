package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// The goodput of the oracle does not depend on the step of the series.
func TestOracleStep(t *testing.T) {
	sc := sim.Scenario{
		Name: "bursts", Duration: 30 * time.Second, Warmup: 2500 * ms, Seed: 1,
		Layers:  []sim.Layer{{Name: "service", Workers: 20, ServiceTime: dist.ServiceTime{Mean: 50 * ms}}},
		Clients: []sim.Client{{Name: "users", Rate: "360", Timeout: 500 * ms, Burst: sim.Burst{Every: time.Second, For: 300 * ms}}},
	}
	sc.Step = 10 * ms
	fine := run(t, sc)
	sc.Step = 5 * time.Second
	if coarse := run(t, sc); coarse.Oracle != fine.Oracle || fine.Oracle == 0 {
		t.Errorf("%v in steps of 5 s: want %v, as in steps of 10 ms", coarse.Oracle, fine.Oracle)
	}
}

// A hundred calls at once, to ten workers of 100 ms each. Calls that begin by 400 ms
// are done by 500 ms: fifty.
func TestOracleKnowsThatWorkTakesTime(t *testing.T) {
	sc := sim.Scenario{
		Name: "batch", Duration: 10 * time.Second, Seed: 1,
		Layers:  []sim.Layer{{Name: "service", Workers: 10, ServiceTime: dist.ServiceTime{Mean: 100 * ms}}},
		Clients: []sim.Client{{Name: "users", Rate: "100", Arrivals: "even", Timeout: 501 * ms, Burst: sim.Burst{Every: time.Second, For: 1}}},
	}
	r := run(t, sc)
	if want := 45.0; math.Abs(r.Oracle-want) > 1 || r.Goodput < want {
		t.Errorf("oracle %v, goodput %v: want %v, half a service time less than the last batch takes", r.Oracle, r.Goodput, want)
	}
}

// A call with retries has time until its deadline.
func TestOracleRetries(t *testing.T) {
	sc := sim.Scenario{
		Name: "retries", Duration: 20 * time.Second, Seed: 1,
		Layers: []sim.Layer{{Name: "service", Workers: 10, ServiceTime: dist.ServiceTime{Mean: 100 * ms}}},
		Clients: []sim.Client{{Name: "users", Rate: "200@1s,0", Arrivals: "even", Timeout: 150 * ms, Deadline: time.Second,
			Retry: sim.Retry{Attempts: 10}}},
	}
	r := run(t, sc)
	if got := r.Oracle * 20; math.Abs(got-195) > 1 {
		t.Errorf("%v served: want 100 while calls come, and 95 in the second after", got)
	}
}
