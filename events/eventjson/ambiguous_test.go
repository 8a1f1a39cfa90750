package eventjson_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/internal/runtest"
)

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{
		`{"a":1,"b":{"a":[1,{"a":2}]},"c":["a","a"]}`: false,
		`"a"`: false, `0.1`: false, `[1e2, -0.5e-3, 9007199254740992, 1.50]`: false, `{"a":"a","b":"a"}`: false, `{"":{}, "x":[[],{}]}`: false,
		`{"a":1,"a":1}`:                      true,
		`{"path":"note","p\u0061th":"/etc"}`: true,
		`[{"x":{"a":1,"b":2,"a":3}}]`:        true,
		`{"path":"note","PATH":"/etc"}`:      true,
		`1.` + strings.Repeat("0", 100000):   true,
		`9007199254740993`:                   true,
		`{"n":[0.1000000000000000055]}`:      true,
		`1e400`:                              true, `1e-999999999999`: true, `1e-399`: true,
		`no JSON`: false, `{"a":1,`: false,
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000): false,
	} {
		runtest.Equal(t, fmt.Sprintf("%.60s", data), eventjson.Ambiguous([]byte(data)), want)
	}
}

// TestNamesThatProgramsTakeForOne generates two names. Where a program in Go reads both into one field, they are ambiguous.
func TestNamesThatProgramsTakeForOne(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("sSſkK\u212aaAéÉßẞiIıİσςΣ")), 1, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		data, err := json.Marshal(map[string]int{a: 1})
		runtest.NoError(t, err)
		field := reflect.StructField{Name: "F", Type: reflect.TypeFor[int](), Tag: reflect.StructTag(`json:"` + b + `"`)}
		into := reflect.New(reflect.StructOf([]reflect.StructField{field}))
		runtest.NoError(t, json.Unmarshal(data, into.Interface()))
		both := fmt.Sprintf("{%q:1,%q:2}", a, b)
		if want := into.Elem().Field(0).Int() == 1; eventjson.Ambiguous([]byte(both)) != want {
			t.Errorf("%s: want ambiguous %v", both, want)
		}
	})
}
