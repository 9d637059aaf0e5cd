package adminapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// After a crash, the reason why no lease is granted is explained.
func TestExplainRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 4, TTL: 30 * time.Second, MaxTTL: time.Minute}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Recover()
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		x := get[adminapi.Explanation](t, api, "/-/explain?key=a")
		if want := "Allowed, but no lease is granted: the server recovers from a crash for 60 s."; x.Words != want {
			t.Errorf("%s: want %s", x.Words, want)
		}
		if want := "Leases: 0 of 4 units held. No new leases for 60 s, after a crash."; x.Rules[0].Words != want || x.Rules[0].Lease.Recovers != 60_000 {
			t.Errorf("%+v: want %s", x.Rules[0], want)
		}
	})
}

// Tokens that do not come back are not awaited.
func TestExplainNeverAllAvailable(t *testing.T) {
	once := config.Rule{Name: "once", Key: "a", Quota: config.Quota{Rate: config.Rate{Period: time.Second}, Burst: 5}}
	s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{once}}})
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.New(adminapi.Config{Server: s})
	defer api.Close()
	if err := s.Decide(t.Context(), &decider.Request{Key: "a", N: 2}, new(decider.Verdict)); err != nil {
		t.Fatal(err)
	}
	r := get[adminapi.Explanation](t, api, "/-/explain?key=a").Rules[0]
	if want := "This key: 0/s burst 5, 3 of 5 left; used tokens do not return."; r.Words != want || r.ResetAfterMS != -1 {
		t.Errorf("%d ms, %s: want -1, %s", r.ResetAfterMS, r.Words, want)
	}
}

// A calendar window is told with its zone, and ends when the calendar says.
func TestExplainCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01T00:00:00Z
		week := config.Rule{Name: "plan", Glob: "*", Quota: config.Quota{
			Rate: config.Rate{Count: 5, Period: 7 * 24 * time.Hour}, Algorithm: config.Calendar, Zone: "Europe/Berlin",
		}}
		s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{week}}})
		if err != nil {
			t.Fatal(err)
		}
		api := adminapi.New(adminapi.Config{Server: s})
		defer api.Close()
		if err := s.Decide(t.Context(), &decider.Request{Key: "a", N: 2}, new(decider.Verdict)); err != nil {
			t.Fatal(err)
		}
		r := get[adminapi.Explanation](t, api, "/-/explain?key=a").Rules[0]
		const sunday = 47 * 60 * 60 * 1000 // until its end
		if want := "Each matching key: 5/week calendar Europe/Berlin, 3 of 5 left, all available in 47 h."; r.Words != want || r.ResetAfterMS != sunday {
			t.Errorf("%d ms, %s: want %d, %s", r.ResetAfterMS, r.Words, sunday, want)
		}
	})
}
