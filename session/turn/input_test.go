package turn_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// inputs has one input of each type.
func inputs() []turn.Input {
	return []turn.Input{
		turn.Claim{},
		turn.Reply{},
		turn.Failure{},
		turn.Interrupted{},
		turn.Switch{},
		turn.Broken{},
		turn.Results{},
		turn.Hooks{},
		turn.Answer{},
		turn.Resolved{},
		turn.StartCalls{},
		turn.Facts{},
		turn.Stop{},
	}
}

// TestInputsAreAll compares the list of inputs with the types of the package that have the method WithExtra.
func TestInputsAreAll(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "input.go", nil, 0)
	runtest.NoError(t, err)
	var want, got []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "WithExtra" {
			want = append(want, f.Recv.List[0].Type.(*ast.Ident).Name) //nolint:forcetypeassert // inputs are values
		}
	}
	for _, in := range inputs() {
		got = append(got, reflect.TypeOf(in).Name())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("inputs: got %v, want %v", got, want)
	}
}

// unknown is an input that the machine has no case for.
type unknown struct{ turn.Stop }

// TestStepKnowsEveryInput steps each input in a running turn: it is known, or does not fit the state. An unknown one is
// another error, because callers drop inputs that do not fit.
func TestStepKnowsEveryInput(t *testing.T) {
	t.Parallel()
	s := projector.New("s1")
	for i, ev := range []events.Event{
		events.Of("", &events.SessionOpened{}), events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Worker: "w1", Attempt: 1}),
	} {
		c := &events.Commit{Session: "s1", At: 1, Events: []events.Event{ev}}
		runtest.NoError(t, s.Apply(events.Entry{Seq: events.Seq(i + 1), Commit: c}))
	}
	for _, in := range inputs() {
		if _, err := turn.Step(s, in); err != nil && !errors.Is(err, turn.ErrStale) {
			t.Errorf("%T: got %v, want events or %v", in, err, turn.ErrStale)
		}
	}
	_, err := turn.Step(s, unknown{})
	if err == nil || errors.Is(err, turn.ErrStale) || !strings.Contains(err.Error(), "unknown input turn_test.unknown") {
		t.Errorf("unknown input: got %v, want an error of its own with the type", err)
	}
}

// TestInputsHaveTheirFields sets the fields Extra and Prompt of each input that has them: its methods return them.
func TestInputsHaveTheirFields(t *testing.T) {
	t.Parallel()
	fact := &events.PluginStateSaved{Plugin: "p"}
	for _, in := range inputs() {
		v := reflect.New(reflect.TypeOf(in)).Elem()
		digest, extra := "", 0
		if f := v.FieldByName("Prompt"); f.IsValid() {
			digest = "d1"
			f.FieldByName("Digest").SetString(digest)
		}
		_, adds := v.Type().FieldByName("Extra")
		in = v.Interface().(turn.Input) //nolint:forcetypeassert // of that type
		if adds {
			extra = 1
		}
		called := 0
		more := in.WithExtra(func() []events.Payload { called++; return []events.Payload{fact} })
		if got := more.PromptDigest(); got != digest {
			t.Errorf("%T: prompt: got %q, want %q", in, got, digest)
		}
		if got := more.Additional(); len(got) != extra || called != extra || extra == 1 && got[0] != events.Payload(fact) || len(in.Additional()) != 0 {
			t.Errorf("%T: additional events: got %v after %d calls, want %d of each", in, got, called, extra)
		}
		if reflect.TypeOf(more) != reflect.TypeOf(in) {
			t.Errorf("%T: got a %T with additional events", in, more)
		}
	}
}
