package rulecheck

import (
	"fmt"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// maxWarnings bounds Report.Warnings.
const maxWarnings = 20

// warn adds a warning for each rule that no request can reach. place returns where a rule is.
func (report *Report) warn(file *config.Rules, place func(rule int) string) error {
	if file.Descriptors != nil { // which find rules by a tree, without patterns
		return nil
	}
	var patterns []match.Pattern
	var at []int // the rules of the patterns
	for i := range file.Rules {
		if r := &file.Rules[i]; r.Mode != config.Off {
			patterns, at = append(patterns, rules.Pattern(r)), append(at, i)
		}
	}
	all := file.Apply == config.All || file.Merge
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
		r := &file.Rules[i]
		kind, pattern := r.Pattern()
		what := fmt.Sprintf("%s %q matches no key", kind, pattern)
		if u.By >= 0 {
			by := at[u.By]
			what = fmt.Sprintf("is never used, because rule %s (%s), which comes first, matches all its keys: put the narrower rule first, or use apply: all", file.Rules[by].Name, place(by))
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s: warning: rule %s: %s", place(i), r.Name, what))
	}
	return nil
}
