package respapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// The replies equal the replies of redis-cell: the first is the example of its README, the
// table has the cases of its tests, with seconds rounded as its command does.
func TestThrottle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := serve(t, respapi.Config{}).dial()
		p.wants("CL.THROTTLE user123 15 30 60 1", "[0 16 15 -1 2]")
		p.wants("cl.throttle user123 15 30 60", "[0 16 14 -1 4]")
		start := time.Now()
		for i, tt := range []struct {
			at   time.Duration
			n    int
			want string
		}{
			{0, 6, "[1 5 5 -1 0]"}, // more than the limit
			{0, 1, "[0 5 4 -1 1]"},
			{0, 1, "[0 5 3 -1 2]"},
			{0, 1, "[0 5 2 -1 3]"},
			{0, 1, "[0 5 1 -1 4]"},
			{0, 1, "[0 5 0 -1 5]"},
			{0, 1, "[1 5 0 1 5]"},
			{3000 * time.Millisecond, 1, "[0 5 2 -1 3]"},
			{3100 * time.Millisecond, 1, "[0 5 1 -1 4]"}, // 3.9 s
			{4000 * time.Millisecond, 1, "[0 5 1 -1 4]"},
			{8000 * time.Millisecond, 1, "[0 5 4 -1 1]"},
			{9500 * time.Millisecond, 1, "[0 5 4 -1 1]"},
			{9500 * time.Millisecond, 0, "[0 5 4 -1 1]"}, // 0 takes nothing
			{9500 * time.Millisecond, 2, "[0 5 2 -1 3]"},
			{9500 * time.Millisecond, 5, "[1 5 2 3 3]"},
		} {
			time.Sleep(tt.at - time.Since(start))
			if got := fmt.Sprint(p.do(fmt.Sprint("CL.THROTTLE foo 4 1 1 ", tt.n))); got != tt.want {
				t.Errorf("%d: at %v, %d: %s, want %s", i, tt.at, tt.n, got, tt.want)
			}
		}
	})
}

// A part of a second counts as a whole one if it has a millisecond.
func TestThrottleRounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := serve(t, respapi.Config{}).dial()
		p.wants("CL.THROTTLE a 0 1000 1", "[0 1 0 -1 1]")    // 1 ms
		p.wants("CL.THROTTLE b 0 10000 1", "[0 1 0 -1 0]")   // 0.1 ms
		p.wants("CL.THROTTLE b 0 10000 1", "[1 1 0 0 0]")    // so does redis-cell
		p.wants("CL.THROTTLE c 0 1 60", "[0 1 0 -1 60]")     //
		time.Sleep(time.Millisecond / 2)                     // 59.9995 s are left
		p.wants("CL.THROTTLE c 0 1 60", "[1 1 0 60 60]")     //
		p.wants("CL.THROTTLE d 15 7 60", "[0 16 15 -1 9]")   // 8.57 s
		p.wants("CL.THROTTLE d 15 7 60 0", "[0 16 15 -1 9]") //
		p.wants("CL.THROTTLE e 0 1 315360000", "[0 1 0 -1 315360000]")
		p.wants("CL.THROTTLE e 0 1 315360000 0", "[0 1 0 -1 315360000]") // an empty bucket does not limit 0
		p.wants("CL.THROTTLE f +4 +1 1 +1", "[0 5 4 -1 1]")
	})
}

// Errors have the words of redis-cell. Where it computes with numbers that make no sense, there
// is an error too.
func TestThrottleErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := serve(t, respapi.Config{}, config.Rule{Name: "r", Glob: "ruled*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}}}).dial()
		const (
			usage = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
			quota = "Cell error: the quota must have a count, a period and a burst > 0, a nanosecond or more for each token, and refill within ten years"
		)
		for command, want := range map[string]string{
			"CL.THROTTLE":                                    usage,
			"CL.THROTTLE a":                                  usage,
			"CL.THROTTLE a 1 1":                              usage,
			"CL.THROTTLE a 1 1 1 1 1":                        usage,
			"CL.THROTTLE a x 1 1":                            "Cell error: Couldn't parse as integer: x",
			"CL.THROTTLE a 1 1.5 1":                          "Cell error: Couldn't parse as integer: 1.5",
			"CL.THROTTLE a 1 1 1 1e3":                        "Cell error: Couldn't parse as integer: 1e3",
			"CL.THROTTLE a 1 1 99999999999999999999":         "Cell error: Couldn't parse as integer: 99999999999999999999",
			"CL.THROTTLE a 1 0 1":                            "Cell error: Zero rates are not supported",
			"CL.THROTTLE a 1 1 0":                            "Cell error: Zero rates are not supported",
			"CL.THROTTLE a -1 1 1":                           "Cell error: max_burst must be >= 0",
			"CL.THROTTLE a 1 1 1 -1":                         "Cell error: quantity must be >= 0",
			"CL.THROTTLE a 1 -1 1":                           quota,
			"CL.THROTTLE a 1 1 -1":                           quota,
			"CL.THROTTLE a 1 1 315360001":                    quota,
			"CL.THROTTLE a 1 1 9223372036854775807":          quota,
			"CL.THROTTLE a 9223372036854775807 1 1":          quota,
			"CL.THROTTLE a 1 9223372036854775807 1":          quota,
			"CL.THROTTLE a 315360000 1 1":                    quota,
			"CL.THROTTLE ruled 1 1 1":                        "ERR requests for this key may not bring a quota of their own: that takes a rule with own_quota: true, or unmatched: allow for keys without a rule",
			"CL.THROTTLE a\xff 1 1 1":                        "ERR the key must be UTF-8 without control characters",
			"CL.THROTTLE a\x00b 1 1 1":                       "ERR the key must be UTF-8 without control characters",
			"CL.THROTTLE a 1 1 1 9223372036854775807":        "[1 2 2 -1 0]",
			"CL.THROTTLE a 315359999 1 1 1":                  "[0 315360000 315359999 -1 1]",
			"CL.THROTTLE a 9223372036854775806 1000000000 1": quota,
		} {
			p.wants(command, want)
		}
	})
}
