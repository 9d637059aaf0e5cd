package proxypage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy/condition"
)

// words returns the level and the sentence of a state.
func words(st *State, status *condition.Status) (level, sentence string) {
	message := status.Message
	switch {
	case !status.Ready:
		return "draining", "Draining: clients are asked to leave; " + message + "."
	case status.Condition == condition.LimitUsed:
		level, sentence = "shedding", "Shedding: "
		message = "the limit was used up a moment ago"
		if n := st.Flow.Rejected - st.Flow.Reasons["pressure"]; n > 0 {
			message = fmt.Sprintf("%s; %s of %s requests per second are rejected", condition.UsedUp(status.Rejecting), operator.Figure(n), operator.Figure(st.Flow.Requests))
		}
	case status.Condition == condition.Pressed:
		level, sentence = "shedding", "Shedding: "
		message = "work waited for the processor a moment ago"
		if n := st.Flow.Reasons["pressure"]; n > 0 {
			message = fmt.Sprintf("work waits for the processor, and %s of %s requests per second are rejected", operator.Figure(n), operator.Figure(st.Flow.Requests))
		}
	case status.Condition != condition.Well:
		level, sentence = "failing", "Failing: "
	case status.Out != nil:
		level, sentence = "degraded", "Degraded: "
	default:
		level, sentence = "healthy", "Healthy: "
	}
	sentence += message
	if status.Out != nil {
		sentence += "; " + condition.OutOf(status.Out, status.Origins)
	}
	if n := st.Flow.Denied; n > 0 {
		sentence += fmt.Sprintf("; rules deny %s per second (%s)", operator.Figure(n), denying(st.Rules))
	}
	if st.Shadow {
		sentence += "; shadow mode: the proxy rejects none"
	}
	return level, sentence + "."
}

// denying lists the rules that deny most.
func denying(rules []Rule) string {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.DeniedRate == 0 })
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(b.DeniedRate, a.DeniedRate) })
	var names []string
	for _, r := range rules[:min(3, len(rules))] {
		names = append(names, r.Name)
	}
	if len(rules) > 3 {
		names = append(names, fmt.Sprintf("%d more", len(rules)-3))
	}
	return strings.Join(names, ", ")
}
