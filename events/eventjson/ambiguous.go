package eventjson

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Ambiguous reports whether programs may read valid JSON in different ways: an object has a name twice, also with
// other capitals, of which most keep the last one, or a number is none that a double keeps, as JavaScript reads it.
func Ambiguous(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []map[string]bool // names of each open object; nil for an array
	isName := false
	for {
		token, err := d.Token()
		if err != nil {
			return false // the end, or no JSON: then it is shown as a text
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open, isName = append(open, make(map[string]bool)), true
				continue
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
		case json.Number:
			if !keptByDouble(string(t)) {
				return true
			}
		case string:
			if isName {
				names, name := open[len(open)-1], folded(t)
				if names[name] {
					return true
				}
				names[name], isName = true, false
				continue
			}
		}
		isName = len(open) > 0 && open[len(open)-1] != nil
	}
}

// folded is the same for all names that differ in capitals only, as programs in Go read them: the long s is an s.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next // the first of its circle
			}
			r = next
		}
	}, name)
}

// Limits of a number that a double may keep.
const (
	maxExponent = 400 // more than that of any double, in powers of ten
	maxDigits   = 400 // bytes of the number
)

// keptByDouble reports whether a number is the same after it was read as a double and written again.
func keptByDouble(number string) bool {
	if _, exponent, has := strings.Cut(strings.ToLower(number), "e"); has {
		if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
			return false
		}
	}
	double, err := strconv.ParseFloat(number, 64)
	if err != nil || len(number) > maxDigits {
		return false
	}
	written, _ := new(big.Rat).SetString(strconv.FormatFloat(double, 'g', -1, 64))
	exact, ok := new(big.Rat).SetString(number)
	return ok && written.Cmp(exact) == 0
}
