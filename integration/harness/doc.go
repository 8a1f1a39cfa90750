// Package harness is what the tests of the whole system share: an embedded server, hosts, nodes, a model that
// plays a script, and the plugins, tools and services around them.
//
//	func TestReply(t *testing.T) {
//		b := harness.Start(t, harness.Reply(harness.Text("hello")))
//		id := b.Open(session.CreateRequest{})
//		b.RunTurn(id, "t1", harness.Text("hi"))
//		harness.EqualLists(t, "messages", b.Messages(id), []string{"user hi", "assistant hello"})
//	}
//
// Each folder beside this package has the tests of one subject, and a TestMain that calls [Main]. What one
// folder alone uses is in that folder.
package harness
