package main

import (
	"fmt"
	"maps"
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
		if !s.wants(l.name) {
			continue
		}
		micros, requests := map[string][]float64{}, map[string]int{}
		for round := range s.rounds + 1 {
			for _, name := range s.servers(l) {
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

// columns returns the columns of a load: medians, and ratios to the floor.
func (s *setting) columns(l load, micros map[string][]float64) []string {
	medians := map[string]float64{}
	for name := range maps.Keys(micros) {
		medians[name] = stat.Median(micros[name])
	}
	var columns []string
	cell := func(name string) string {
		if _, ok := medians[name]; !ok {
			return "-"
		}
		return fmt.Sprintf("%.2f", medians[name])
	}
	columns = append(columns, cell(l.floor))
	last := l.own
	for i, name := range s.transports {
		if l.own != "" {
			name = []string{l.own, ""}[min(i, 1)]
		} else {
			last = name
		}
		columns = append(columns, cell(name))
	}
	ratio, gocc := "-", "-"
	if floor, ok := medians[l.floor]; ok {
		ratio = fmt.Sprintf("%.3f", medians[last]/floor)
	}
	if l.gocc > 0 {
		gocc = fmt.Sprintf("%.2f", l.gocc)
	}
	return append(columns, ratio, gocc)
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
