package ring

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// The Stats tell about each member, and about forwarded requests.
func TestStats(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		f.take("a", f.ownedBy("b"), 3)
		st := f.nodes["a"].Stats()
		slots := 0
		for _, m := range st.Members {
			slots += m.Slots
			if m.Status != census.Live || m.Rules != "" || (m.Link == nil) != (m.Name == "a") || m.Link != nil && !m.Link.State.Up {
				t.Errorf("%+v", m)
			}
		}
		if len(st.Members) != 3 || slots != 65_536 || !st.Quorum || st.Self != "a" || st.Members[1].Forwarded != 3 || st.Forwarded != 3 {
			t.Errorf("%+v", st)
		}
		if st.Took[3] != 3 || st.TookSum != 3*latency {
			t.Errorf("took %v, in all %v; want 3 requests of %v", st.Took, st.TookSum, latency)
		}
	})
}

// Members tell which rules they have, also after a reload.
func TestStatsOfOtherRules(t *testing.T) {
	old := bucket(limit, time.Hour)
	old.Hash = "old"
	inFleet(t, 2, old, func(t *testing.T, f *fleet) {
		others := func(want string) {
			t.Helper()
			time.Sleep(time.Second)
			if got := f.nodes["a"].Stats().Members; got[0].Rules != "old" || got[1].Rules != want {
				t.Errorf("a has the rules %q and knows that b has %q, want %q", got[0].Rules, got[1].Rules, want)
			}
		}
		others("old")
		next := &config.Rules{Rules: old.Rules, Hash: "new"}
		if err := f.nodes["b"].server.Reload(next); err != nil {
			t.Fatal(err)
		}
		others("new")
		f.kill("b")
		f.start("b")
		others("old")
	})
}
