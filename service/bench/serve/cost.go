package main

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/service/bench/internal/stat"
)

// servers returns the names of the servers that a load is for.
func (s *setting) servers(l load) []string {
	names := s.transports
	if l.own != "" {
		names = []string{l.own}
	}
	if l.floor == "" {
		return names
	}
	return append([]string{l.floor}, names...)
}

// costs prints what a request costs each server. It returns the requests a second that the floor of each
// load has answered.
func (s *setting) costs(all servers, f files) (rates map[string]float64, err error) {
	rates = map[string]float64{}
	var bars []bar
	row("CPU of the server, µs a request", slices.Concat([]string{"the floor"}, s.transports, []string{s.transports[len(s.transports)-1] + " ÷ floor", "GoCC ÷ floor"}))
	for _, l := range s.loads(f) {
		if !s.only.MatchString(l.name) {
			continue
		}
		micros, requests := map[string][]float64{}, map[string]int{}
		for round := range s.rounds + 1 {
			for _, name := range s.servers(l) {
				if l.check != nil && round == 0 {
					if err := l.check(all[name].Addr); err != nil {
						return nil, fmt.Errorf("%s: %s: %w", l.name, name, err)
					}
				}
				took, err := l.on(all[name], requests[name])
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				if requests[name] = int(took.rate) * s.seconds; round == 0 { // to find how many
					continue
				}
				micros[name] = append(micros[name], took.micros/float64(l.batch))
				if name == l.floor {
					rates[l.name] = max(rates[l.name], took.rate)
				}
			}
		}
		row(l.name, s.columns(l, micros))
		bars = append(bars, s.bars(l, micros)...)
	}
	fmt.Println()
	if s.picture != "" {
		return rates, s.paint(bars)
	}
	return rates, nil
}

// columns returns the columns of a load: the medians of the floor and the transports, and ratios to the floor.
func (s *setting) columns(l load, micros map[string][]float64) []string {
	columns := slices.Repeat([]string{"-"}, 1+len(s.transports)+2)
	at, last := 0, 0.0
	if l.floor == "" {
		at = 1
	}
	for i, name := range s.servers(l) {
		last = stat.Median(micros[name])
		columns[at+i] = fmt.Sprintf("%.2f", last)
	}
	if l.floor != "" {
		columns[len(columns)-2] = fmt.Sprintf("%.3f", last/stat.Median(micros[l.floor]))
	}
	if l.gocc > 0 {
		columns[len(columns)-1] = fmt.Sprintf("%.2f", l.gocc)
	}
	return columns
}

// bars returns the bars of a load.
func (s *setting) bars(l load, micros map[string][]float64) (bars []bar) {
	if l.own != "" {
		return nil
	}
	floor := stat.Median(micros[l.floor])
	bars = append(bars, bar{l.name, theFloor, floor})
	for _, name := range s.transports {
		bars = append(bars, bar{l.name, name, stat.Median(micros[name])})
	}
	if l.gocc > 0 {
		bars = append(bars, bar{l.name, goCC, l.gocc * floor})
	}
	return bars
}
