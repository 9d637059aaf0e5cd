package main

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/rulecheck"
)

// ofProxy reports whether a file has rules of weir proxy.
func ofProxy(path string) bool {
	text, err := proxyrule.Read(path)
	return err == nil && proxyrule.Recognize(path, text)
}

// checkProxy checks a file of weir proxy, and explains what it does with requests.
func (c *checkCmd) checkProxy(std cli.Streams) error {
	var requests []*http.Request
	for _, text := range c.Keys {
		r, err := proxyrule.ParseRequest(text)
		if err != nil {
			return cli.Usagef("%q is not a request: %v", text, err)
		}
		requests = append(requests, r)
	}
	report, err := rulecheck.CheckProxy(c.Path, requests)
	if c.JSON {
		if err != nil {
			err = fmt.Errorf("%s: %d errors", c.Path, len(report.Errors))
		}
		return cmp.Or(cli.PrintJSON(std.Out, report), err)
	}
	if err != nil {
		return err
	}
	return report.Print(std.Out)
}
