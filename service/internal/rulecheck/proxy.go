package rulecheck

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/terminal"
)

// A ProxyReport is the result of checking a file of weir proxy.
type ProxyReport struct {
	Path     string                  `json:"path"`
	Errors   []string                `json:"errors,omitempty"` // the mistakes; if there are any, the other fields are empty
	Rules    int                     `json:"rules"`
	Classes  int                     `json:"classes"` // without the class default
	Hash     string                  `json:"hash,omitempty"`
	Warnings []string                `json:"warnings,omitempty"` // about what rejects all of its requests
	Requests []proxyrule.Explanation `json:"requests,omitempty"`
}

// CheckProxy checks a file of weir proxy, and explains what it does with requests. If the file has mistakes, it
// returns the error, and a ProxyReport that lists them.
func CheckProxy(path string, requests []*http.Request) (ProxyReport, error) {
	report := ProxyReport{Path: path}
	rules, err := proxyrule.Load(path)
	if err != nil {
		report.Errors = strings.Split(err.Error(), "\n")
		return report, err
	}
	report.Rules, report.Classes, report.Hash = len(rules.Rules), len(rules.Classes), rules.Hash
	report.Warnings = rules.Warnings
	for _, r := range requests {
		report.Requests = append(report.Requests, rules.Explain(r))
	}
	return report, nil
}

// Print writes the report as text.
func (report *ProxyReport) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: weir proxy, %d rules, %d classes, hash %s\n", report.Path, report.Rules, report.Classes, report.Hash)
	for _, warning := range report.Warnings {
		b.WriteString(terminal.Escape(warning) + "\n")
	}
	for _, x := range report.Requests {
		b.WriteString("\n")
		for line := range strings.Lines(x.Text()) {
			b.WriteString(terminal.Escape(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
