package proxy

import (
	"fmt"

	"github.com/weir-go/weir/internal/loadsign"
)

// A Condition is the state of the origin, in one word.
type Condition string

// The conditions. The most frequent sign decides.
const (
	Well        Condition = "well"                // no sign of overload or absence; the origin may fail in other ways
	LimitUsed   Condition = "limit_used"          // no such sign, and the limit rejects requests
	Refuses     Condition = "connections_refused" // the origin refuses connections
	Silent      Condition = "timeout"             // the origin does not answer in time
	Unavailable Condition = "unavailable"         // the origin answers 503
	GatewayLate Condition = "gateway_timeout"     // the origin answers 504
)

// Conditions lists all conditions.
var Conditions = []Condition{Well, LimitUsed, Refuses, Silent, Unavailable, GatewayLate}

// originFails reports whether the origin fails.
func (c Condition) originFails() bool { return c != Well && c != LimitUsed }

// bySign maps signs of load to conditions.
var bySign = map[loadsign.Sign]Condition{
	loadsign.Refused: Refuses, loadsign.Silent: Silent,
	loadsign.Unavailable: Unavailable, loadsign.GatewayLate: GatewayLate,
}

// A snapshot holds the counts since New, or of a period, and the state at the end.
type snapshot struct {
	signs              [loadsign.Count]uint64
	admitted, rejected uint64
	limit, inflight    int
	waiting, longLived int
}

// A condition needs a least share and number of signs among the answers, or a
// least share of rejections among the requests.
const (
	signShare   = 0.05
	signLeast   = 3
	rejectShare = 0.01
)

// condition returns the condition of a period, and the share of the answers with
// its sign, or of the rejected requests. Without requests, ok is false.
func (s *snapshot) condition() (c Condition, share float64, ok bool) {
	all, most, worst := s.answers(), uint64(0), loadsign.None
	for i, n := range s.signs {
		if _, bad := bySign[loadsign.Sign(i)]; bad && n > most {
			most, worst = n, loadsign.Sign(i)
		}
	}
	asked := s.admitted + s.rejected
	if all == 0 && asked == 0 {
		return Well, 0, false
	}
	if share = part(most, all); most > 0 && share >= signShare && (most >= signLeast || most == all) {
		return bySign[worst], share, true
	}
	if share = part(s.rejected, asked); share >= rejectShare && s.rejected >= signLeast {
		return LimitUsed, share, true
	}
	return Well, 0, true
}

// answers returns the number of requests that were answered, or failed.
func (s *snapshot) answers() (n uint64) {
	for _, k := range s.signs {
		n += k
	}
	return n
}

func part(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// message returns the sentence for a condition.
func (s *snapshot) message(c Condition, share float64) string {
	quantity := fmt.Sprintf("%.0f %% of ", 100*share)
	if share > 0.995 {
		quantity = "all "
	}
	sentence := map[Condition]string{
		Well:        "the origin shows no sign of overload",
		LimitUsed:   quantity + "requests are rejected: the limit is used up",
		Refuses:     "the origin refuses " + quantity + "connections",
		Silent:      "the origin does not answer " + quantity + "requests in time",
		Unavailable: "the origin answers 503 to " + quantity + "requests",
		GatewayLate: "the origin answers 504 to " + quantity + "requests",
	}[c]
	switch {
	case c == LimitUsed && s.answers() == 0:
		sentence += ", and the origin has answered nothing meanwhile"
	case c.originFails() && s.rejected == 0 && s.waiting == 0 && s.inflight < s.limit:
		sentence += ", although the limit is not used up"
	}
	return sentence
}
