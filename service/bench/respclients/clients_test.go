package respclients

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weir-go/weir/service/internal/transport/respapi/resptest"
)

func TestGoRedis(t *testing.T) {
	for _, options := range []redis.Options{{}, {Protocol: 2}, {Password: resptest.Secret}, {Username: "any", Password: resptest.Secret, Protocol: 2}} {
		options.Addr = resptest.Serve(t, options.Password != "")
		r := redis.NewClient(&options)
		defer r.Close()
		began := time.Now()
		first, err := r.Do(t.Context(), "CL.THROTTLE", "user123", 15, 30, 60).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		got := [][]int64{first}
		var piped []*redis.Cmd
		if _, err := r.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 7 {
				piped = append(piped, p.Do(t.Context(), "CL.THROTTLE", "piped", 4, 1, 60))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, cmd := range piped {
			reply, err := cmd.Int64Slice()
			if err != nil {
				t.Error(err)
			}
			got = append(got, reply)
		}
		resptest.Check(t, "go-redis", began, got)
		if err := r.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
}

// A client that gives up while it waits gets nothing, and its next command works.
func TestGoRedisGivesUp(t *testing.T) {
	r := redis.NewClient(&redis.Options{Addr: resptest.Serve(t, false)})
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Do(ctx, "WEIR.LEASE", "jobs", "WAIT", 60).Err(); err == nil {
		t.Error("a lease without a rule for it")
	}
	if err := r.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestRueidis(t *testing.T) {
	for _, options := range []rueidis.ClientOption{{}, {AlwaysRESP2: true, DisableCache: true}, {Password: resptest.Secret}} {
		options.InitAddress = []string{resptest.Serve(t, options.Password != "")}
		r, err := rueidis.NewClient(options)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		throttle := func(args ...string) rueidis.Completed { return r.B().Arbitrary("CL.THROTTLE").Args(args...).Build() }
		began := time.Now()
		all := []rueidis.RedisResult{r.Do(t.Context(), throttle("user123", "15", "30", "60"))}
		var piped []rueidis.Completed
		for range 7 {
			piped = append(piped, throttle("piped", "4", "1", "60"))
		}
		all = append(all, r.DoMulti(t.Context(), piped...)...)
		var got [][]int64
		for _, result := range all {
			reply, err := result.AsIntSlice()
			if err != nil {
				t.Error(err)
			}
			got = append(got, reply)
		}
		resptest.Check(t, "rueidis", began, got)
	}
}
