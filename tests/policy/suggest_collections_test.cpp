// Backends that number the things of each collection from 1: equal numbers name nothing in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/suggest/tool_verdict.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_collections_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Answer = SeenTraffic::Answer;

std::string N(int number) { return std::to_string(number); }
SeenMember Number(const std::string& place, int number) {
  return {place, N(number), ValueKind::kNumber};
}
Answer Made(int id) { return {201, {Number("/id", id)}}; }

// What each run makes: a customer, an order, a note and an invoice.
struct Ids {
  int customer, order, note, invoice;
};

// One trace a run. Some calls are made twice, so that the numbers of the collections drift apart.
class Shop {
 public:
  Ids Run(int run) {
    trace_ = "trace " + N(run);
    Ids made{};
    made.customer =
        Make("/customers", run % 17 == 3, {{"/email", "u" + N(run) + "@x"}}, customers_);
    made.order = Make("/orders", run % 11 == 5,
                      {Number("/customer_id", made.customer), {"/cart", "c" + N(run)}}, orders_);
    made.note = Make("/notes", run % 13 == 4,
                     {Number("/order_id", made.order), {"/text", "t" + N(run)}}, notes_);
    Call("GET", "/notes/" + N(made.note), {200, {Number("/id", made.note)}});
    made.invoice = Make("/invoices", run % 9 == 2, {Number("/order_id", made.order)}, invoices_);
    Call("GET", "/invoices/" + N(made.invoice), {200, {Number("/id", made.invoice)}});
    return made;
  }
  void Delete(const std::string& collection, int id) {
    Call("DELETE", collection + "/" + N(id), {204});
  }
  std::string UndoOf(const std::string& collection) const {
    const SuggestedTool tool = traffic.Tool("POST", collection);
    return tool.links.undo ? tool.links.undo->request : "";
  }

  SeenTraffic traffic;

 private:
  int Make(const std::string& path, bool is_twice, const SeenMembers& body, int& count) {
    for (int i = 0; i <= static_cast<int>(is_twice); ++i) {
      traffic.Call("POST", path, body, Made(++count), trace_);
    }
    return count;
  }
  void Call(const std::string& method, const std::string& path, const Answer& answer) {
    traffic.Call(method, path, {}, answer, trace_);
  }
  std::string trace_;
  int customers_ = 0, orders_ = 0, notes_ = 0, invoices_ = 0;
};

TEST(SuggestCollectionsTest, ADeleteTakesBackWhatItsOwnCollectionMade) {
  Shop shop;
  for (int run = 0; run < 40; ++run) {
    const Ids made = shop.Run(run);
    if (run % 3 == 0) shop.Delete("/orders", made.order);
  }
  EXPECT_EQ(shop.UndoOf("/orders"), "DELETE /orders/{external_ref}");
  for (const std::string other : {"/customers", "/notes", "/invoices"}) {
    EXPECT_EQ(shop.UndoOf(other), "") << other;
    EXPECT_THAT(shop.traffic.Tool("POST", other).links.other_undos, IsEmpty()) << other;
  }
  EXPECT_EQ(shop.traffic.Tool("POST", "/customers").links.ref.place, "");
  EXPECT_EQ(shop.traffic.Tool("POST", "/notes").links.ref.place, "answer.body#/id");
  EXPECT_EQ(shop.traffic.Tool("DELETE", "/orders/{id}").takes_back, "orders.create");
}

TEST(SuggestCollectionsTest, EachCollectionHasItsOwnDelete) {
  Shop shop;
  for (int run = 0; run < 40; ++run) {
    const Ids made = shop.Run(run);
    if (run % 3 == 0) shop.Delete("/orders", made.order);
    if (run % 3 == 1) shop.Delete("/customers", made.customer);
    if (run % 4 == 0) shop.Delete("/notes", made.note);
  }
  EXPECT_EQ(shop.UndoOf("/orders"), "DELETE /orders/{external_ref}");
  EXPECT_EQ(shop.UndoOf("/customers"), "DELETE /customers/{external_ref}");
  EXPECT_EQ(shop.UndoOf("/notes"), "DELETE /notes/{external_ref}");
  EXPECT_EQ(shop.UndoOf("/invoices"), "");
}

// Nobody saw the orders made, so that their numbers are told by nothing but the customers'.
TEST(SuggestCollectionsTest, AnotherCollectionsDeleteIsNeverSettled) {
  SeenTraffic traffic;
  for (int i = 1; i <= 30; ++i) {
    traffic.Call("POST", "/customers", {{"/email", "u" + N(i)}}, Made(i), "t" + N(i));
    if (i % 3 == 0) traffic.Call("DELETE", "/orders/" + N(i), {}, {204}, "t" + N(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/customers");
  EXPECT_FALSE(tool.links.undo);
  EXPECT_THAT(tool.links.ref.place, IsEmpty());
  EXPECT_THAT(tool.links.ref.undecided, HasSubstr("other collection"));
  EXPECT_TRUE(VerdictOf(tool).must_decide);
}

// Its ids are no numbers, yet the path is another one: a person has to say so.
TEST(SuggestCollectionsTest, AnUndoInAnotherCollectionIsOpenWithItsCounts) {
  SeenTraffic traffic;
  for (int i = 1; i <= 9; ++i) {
    const std::string id = "ord-" + N(i);
    traffic.Call("POST", "/checkout", {{"/cart", "c" + N(i)}}, {201, {{"/order_id", id}}});
    traffic.Call("GET", "/orders/" + id, {}, {});
    if (i % 3 == 0) traffic.Call("DELETE", "/orders/" + id, {}, {204});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/checkout");
  EXPECT_EQ(tool.links.ref.place, "answer.body#/order_id");
  EXPECT_FALSE(tool.links.undo);
  EXPECT_THAT(tool.links.other_undos,
              ElementsAre("DELETE /orders/{id} named 3 of 9, but in another collection"));
  EXPECT_TRUE(VerdictOf(tool).must_decide);
  EXPECT_THAT(traffic.Tool("DELETE", "/orders/{id}").takes_back, IsEmpty());
}

// What an earlier run made has the same number: only the trace tells whose it is.
TEST(SuggestCollectionsTest, ANumberThatTwoCreatesGaveCountsForNone) {
  SeenTraffic traffic;
  for (int i = 1; i <= 12; ++i) {
    traffic.Call("POST", "/mails", {{"/to", "m" + N(i)}}, {201, {Number("/id", i)}}, "a" + N(i));
    traffic.Call("POST", "/posts", {{"/text", "p" + N(i)}}, {201, {Number("/id", i)}}, "b" + N(i));
    traffic.Call("POST", "/retractions", {Number("/id", i)}, {201}, "c" + N(i));
    traffic.Call("POST", "/cancellations", {Number("/id", i)}, {201}, "b" + N(i));
  }
  EXPECT_FALSE(traffic.Tool("POST", "/mails").links.undo);
  EXPECT_FALSE(traffic.Tool("POST", "/posts").links.undo);
}

// A person cancels later, elsewhere, by a path that says what it is.
TEST(SuggestCollectionsTest, AnotherTraceMayTakeBackInTheOwnCollection) {
  Shop shop;
  std::vector<int> orders;
  for (int run = 0; run < 20; ++run) orders.push_back(shop.Run(run).order);
  for (int i = 0; i < 5; ++i) {
    shop.traffic.Call("DELETE", "/orders/" + N(orders[static_cast<std::size_t>(i) * 3]), {}, {204},
                      "support " + N(i));
  }
  EXPECT_EQ(shop.UndoOf("/orders"), "DELETE /orders/{external_ref}");
  EXPECT_EQ(shop.UndoOf("/customers"), "");
}

// A path below the collection's, or above it, is the same collection.
TEST(SuggestCollectionsTest, ANestedCollectionIsKnownByItsWord) {
  SeenTraffic traffic;
  for (int i = 1; i <= 9; ++i) {
    traffic.Call("POST", "/customers/" + N(i) + "/orders", {{"/cart", "c" + N(i)}}, Made(100 + i));
    if (i % 3 == 0) traffic.Call("DELETE", "/orders/" + N(100 + i), {}, {204});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/customers/{id}/orders");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "DELETE /orders/{external_ref}");
}

TEST(SuggestCollectionsTest, ANameThatTheClientChoseIsTheNameInItsOwnCollection) {
  SeenTraffic traffic;
  for (int i = 1; i <= 9; ++i) {
    const SeenMember sku{"/sku", "sku-" + N(i)};
    traffic.Call("GET", "/products/sku-" + N(i), {}, {404});
    traffic.Call("POST", "/products", {sku, Number("/price", i)},
                 {201, {sku, Number("/price", i)}});
    traffic.Call("GET", "/products/sku-" + N(i), {}, {200, {sku}});
    if (i % 3 == 0) traffic.Call("DELETE", "/products/sku-" + N(i), {}, {204});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/products");
  EXPECT_EQ(tool.links.ref.place, "answer.body#/sku");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "DELETE /products/{external_ref}");
}

TEST(SuggestCollectionsTest, AToolsNounTellsWhatItTakesBack) {
  SeenTraffic traffic;
  for (int i = 1; i <= 12; ++i) {
    const Answer numbered{200, {Number("/id", i)}};
    traffic.CallTool("create_customer", {{"/mail", "m" + N(i)}}, numbered);
    traffic.CallTool("create_order", {{"/cart", "c" + N(i)}}, numbered);
    traffic.CallTool("create_note", {{"/text", "t" + N(i)}}, numbered);
    if (i % 3 == 0) traffic.CallTool("delete_order", {Number("/id", i)}, {});
  }
  const auto undo = [&](const std::string& tool) {
    const auto links = traffic.Tool("tools/call", "/" + tool).links;
    return links.undo ? links.undo->request : "";
  };
  EXPECT_EQ(undo("create_order"), "delete_order");
  EXPECT_EQ(undo("create_customer"), "");
  EXPECT_EQ(undo("create_note"), "");
}

// The number of a note and of its order are equal for a while.
TEST(SuggestCollectionsTest, AReadByItsOwnNameIsNoProbeByAnothersNumber) {
  Shop shop;
  for (int run = 0; run < 3; ++run) shop.Run(run);
  for (int run = 6; run < 9; ++run) shop.Run(run);
  for (int i = 100; i < 125; ++i) {
    const SeenMembers body{Number("/order_id", i), {"/text", "t"}};
    if (i % 5 == 0) shop.traffic.Call("POST", "/notes", body, SeenTraffic::Lost());
    shop.traffic.Call("POST", "/notes", body, Made(i));
    shop.traffic.Call("GET", "/notes/" + N(i), {}, {200, {Number("/id", i)}});
  }
  EXPECT_FALSE(shop.traffic.Tool("POST", "/notes").links.probe);
}

}  // namespace
}  // namespace recourse::suggest_collections_test
