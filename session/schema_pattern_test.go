package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/schema"
)

// patternPlaces are schemas whose pattern applies to the value, to a member or to the names of members.
var patternPlaces = map[string]string{
	"value": `{"pattern":%s}`, "member": `{"properties":{"a":{"items":{"pattern":%s}}}}`, "names": `{"propertyNames":{"pattern":%s}}`,
	"of names": `{"patternProperties":{%s:{}}}`, "unused": `{"$defs":{"a":{"pattern":%s}}}`, "not": `{"not":{"pattern":%s}}`,
}

func parsePattern(t interface{ Fatal(...any) }, place, pattern string) error {
	quoted, err := json.Marshal(pattern)
	if err != nil {
		t.Fatal(err)
	}
	_, err = schema.Parse("schema", fmt.Appendf(nil, patternPlaces[place], quoted))
	return err
}

// TestPatternsAreBounded puts patterns of any nesting of repetitions at each place. What is accepted has few instructions,
// and what is refused names the field.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SampledFrom([]string{"a", "[a-z]", ".", "(ab|c)", `\pL`, "x*y?"}).Draw(t, "atom")
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			switch rapid.IntRange(0, 3).Draw(t, "by") {
			case 0:
				pattern = "(" + pattern + fmt.Sprintf("){%d}", rapid.IntRange(0, 1000).Draw(t, "times"))
			case 1:
				pattern = fmt.Sprintf("(?:%s){%d,%d}", pattern, rapid.IntRange(0, 10).Draw(t, "least"), rapid.IntRange(10, 1000).Draw(t, "most"))
			case 2:
				pattern = strings.Repeat(pattern, min(rapid.IntRange(1, 100).Draw(t, "copies"), 1+2000/len(pattern)))
			default:
				pattern = "(" + pattern + "|" + pattern + ")+"
			}
		}
		place := rapid.SampledFrom([]string{"value", "member", "names", "of names", "not"}).Draw(t, "place")
		err := parsePattern(t, place, pattern)
		if field := new(events.FieldError); err != nil && (!errors.As(err, &field) || field.Field != "schema" || len(err.Error()) > 1000) {
			t.Fatalf("%.100s: got %v, want an error of the field", pattern, err)
		}
		tree, bad := syntax.Parse(pattern, syntax.Perl)
		if bad != nil {
			if err == nil {
				t.Fatalf("%.100s: accepted, and is no pattern: %v", pattern, bad)
			}
			return
		}
		if err != nil {
			return
		}
		program, bad := syntax.Compile(tree.Simplify())
		if bad != nil || len(program.Inst) > 5200 {
			t.Fatalf("%.100s: accepted with %d instructions, %v", pattern, len(program.Inst), bad)
		}
	})
}

// TestLongUsualPatterns accepts patterns that tools have, and refuses small ones that would need gigabytes or minutes.
func TestLongUsualPatterns(t *testing.T) {
	t.Parallel()
	for place := range patternPlaces {
		for _, pattern := range []string{
			`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`, `^.{1,500}$`, `^[\p{L}\p{N} ]{0,1000}$`, `^[A-Za-z0-9_-]{1,64}$`,
			`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`, `^(https?|ftp)://[^\s/$.?#].[^\s]*$`, `^[\w.+-]+@[\w-]+(\.[\w-]+)+$`,
		} {
			runtest.WantError(t, fmt.Sprintf("%s: %s", place, pattern), parsePattern(t, place, pattern), nil)
			_, err := regexp.Compile(pattern)
			runtest.WantError(t, pattern, err, nil)
		}
		for _, pattern := range []string{`^(` + strings.Repeat("a", 3000) + `){1000}$`, `(` + strings.Repeat("a?", 60) + `){1000}b`, `((a{0,30}){0,30}b){0,1000}`, strings.Repeat(`.{1000}`, 60), strings.Repeat(`[\pL\pN]`, 2000)} {
			if err := parsePattern(t, place, pattern); err == nil {
				t.Errorf("%s: %.60s is accepted", place, pattern)
			}
		}
	}
	many := strings.Repeat(`{"pattern":"^.{1000}$"},`, 3)
	for _, text := range []string{`{"allOf":[` + many + `{}]}`, `{"items":{"anyOf":[` + many + `{}]}}`, `{"pattern":"^.{1000}$","patternProperties":{"^.{1000}a":{},"^.{800}b":{}}}`, `{"pattern":"("}`} {
		if _, err := schema.Parse("schema", []byte(text)); err == nil {
			t.Errorf("%.100s is accepted", text)
		}
	}
}
