// Package condition says in one word, and in a sentence, how the origins and the limits of the proxy are. It follows from
// counts of the last second.
package condition

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A Condition is the state of the origin, in one word.
type Condition string

// The conditions. The most frequent sign decides.
const (
	Well        Condition = "well"                // no sign of overload or absence; the origin may fail in other ways
	LimitUsed   Condition = "limit_used"          // no such sign, and the limit rejects requests
	Pressed     Condition = "pressure"            // no such sign, and requests are rejected because work waits for the processor
	Refuses     Condition = "connections_refused" // the origin refuses connections
	Unreachable Condition = "unreachable"         // the origin has no address, there is no route, its Unix socket cannot be opened, or the TLS handshake fails
	Silent      Condition = "timeout"             // the origin does not answer in time
	Unavailable Condition = "unavailable"         // the origin answers 503
	GatewayLate Condition = "gateway_timeout"     // the origin answers 504
)

// originFails reports whether the origin fails.
func (c Condition) originFails() bool { return c != Well && c != LimitUsed && c != Pressed }

// conditions lists all conditions, each with the sign of load and the sentence, where
// QUANTITY is the share of the answers with the sign, or of the rejected requests, and LIMIT says
// which limit rejects them.
var conditions = []struct {
	Condition
	sign     loadsign.Sign
	sentence string
}{
	{Well, loadsign.None, "the origin shows no sign of overload"},
	{LimitUsed, loadsign.None, "QUANTITY requests are rejected: LIMIT"},
	{Pressed, loadsign.None, "QUANTITY requests are rejected: work waits for the processor"},
	{Unavailable, loadsign.Unavailable, "the origin answers 503 to QUANTITY requests"},
	{GatewayLate, loadsign.GatewayLate, "the origin answers 504 to QUANTITY requests"},
	{Refuses, loadsign.Refused, "the origin is down, or starts: it refuses QUANTITY connections"},
	{Unreachable, loadsign.Unreachable, "the origin cannot be reached: no address, no route, a Unix socket that cannot be opened, or a failed TLS handshake for QUANTITY requests"},
	{Silent, loadsign.Silent, "the origin does not answer QUANTITY requests in time"},
}

// All returns all conditions.
func All() (all []Condition) {
	for _, c := range conditions {
		all = append(all, c.Condition)
	}
	return all
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
func (s *Snapshot) condition() (c Condition, share float64, ok bool) {
	all, asked := s.answers(), s.Admitted+s.Rejected+s.Spared
	if all == 0 && asked == 0 {
		return Well, 0, false
	}
	most, worst := uint64(0), Well
	for _, bad := range conditions {
		if n := s.Signs[bad.sign]; bad.sign != loadsign.None && n > most {
			most, worst = n, bad.Condition
		}
	}
	if share = part(most, all); most > 0 && share >= signShare && (most >= signLeast || most == all) {
		return worst, share, true
	}
	if share = part(s.Spared, asked); share >= rejectShare && s.Spared >= signLeast && s.Spared >= s.Rejected {
		return Pressed, share, true
	}
	if share = part(s.Rejected, asked); share >= rejectShare && s.Rejected >= signLeast {
		return LimitUsed, share, true
	}
	return Well, 0, true
}

// answers returns the number of requests that were answered, or failed.
func (s *Snapshot) answers() (n uint64) {
	for _, k := range s.Signs {
		n += k
	}
	return n
}

func part(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

// UsedUp says which limits are used up: those of the named classes, and total for the limit of
// all classes; or the only limit, if there are no names.
func UsedUp(names []string) string {
	switch {
	case len(names) == 0:
		return "the limit is used up"
	case len(names) > 1:
		listed := strings.Join(names[:min(len(names), maxNames)], ", ")
		if more := len(names) - maxNames; more > 0 {
			listed += fmt.Sprintf(", %d more", more)
		}
		return "the limits of several classes are used up (" + listed + ")"
	case names[0] == proxyrule.TotalName:
		return "the limit of all classes together is used up"
	}
	return "the limit of class " + names[0] + " is used up"
}

// OutOf says which of all origins are out.
func OutOf(out []string, origins int) string {
	are := "are"
	if len(out) == 1 {
		are = "is"
	}
	listed := strings.Join(out[:min(len(out), maxNames)], ", ")
	if more := len(out) - maxNames; more > 0 {
		listed += fmt.Sprintf(", %d more", more)
	}
	return fmt.Sprintf("%d of %d origins %s out: %s", len(out), origins, are, listed)
}

const maxNames = 3 // in a sentence

// message returns the sentence for a condition.
func (s *Snapshot) message(c Condition, share float64, rejecting []string) (sentence string) {
	quantity := fmt.Sprintf("%.0f %% of", 100*share)
	if share > 0.995 {
		quantity = "all"
	}
	for _, known := range conditions {
		if known.Condition == c {
			sentence = strings.NewReplacer("QUANTITY", quantity, "LIMIT", UsedUp(rejecting)).Replace(known.sentence)
		}
	}
	switch {
	case c == LimitUsed && s.answers() == 0:
		sentence += ", and the origin has answered nothing meanwhile"
	case c.originFails() && s.Rejected == 0 && s.Waiting == 0 && s.Inflight < s.Limit:
		sentence += ", although the limit is not used up"
	}
	return sentence
}
