package rulecheck

import (
	"fmt"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/server/ruleset"
)

// maxWarnings bounds Report.Warnings.
const maxWarnings = 20

// warn adds a warning for each rule that no request can reach. place returns where a rule is.
func (report *Report) warn(rules *config.Rules, place func(rule int) string) error {
	if rules.Descriptors != nil { // which find rules by a tree, without patterns
		return nil
	}
	var patterns []match.Pattern
	var at []int // the rules of the patterns
	for i := range rules.Rules {
		if r := &rules.Rules[i]; r.Mode != config.Off {
			patterns, at = append(patterns, ruleset.Pattern(r)), append(at, i)
		}
	}
	all := rules.Apply == config.All || rules.Merge
	found, err := match.FindUnreachable(patterns, all)
	if err != nil {
		return err
	}
	for _, u := range found {
		if len(report.Warnings) == maxWarnings {
			report.More++
			continue
		}
		i := at[u.Pattern]
		r := &rules.Rules[i]
		kind, pattern := r.Pattern()
		what := fmt.Sprintf("%s %q matches no key", kind, pattern)
		if u.By >= 0 {
			by := at[u.By]
			what = fmt.Sprintf("is never used, because rule %s (%s), which comes first, matches all its keys: put the narrower rule first, or use apply: all", rules.Rules[by].Name, place(by))
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s: warning: rule %s: %s", place(i), r.Name, what))
	}
	return nil
}
