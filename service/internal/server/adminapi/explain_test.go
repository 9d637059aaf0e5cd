package adminapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
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
