#include "policy/effects/overlay.h"

#include <algorithm>
#include <iterator>

#include "policy/effects/declared.h"
#include "policy/effects/json_path.h"
#include "policy/language/config_reader.h"

namespace recourse {
namespace {

// Members that the specification leaves to others.
void KnowExtensions(MapReader& map) {
  for (const auto& member : map.node().members) {
    if (member.name.starts_with("x-")) (void)map.Get(member.name);
  }
}

bool DeclaresEffects(const YamlNode& node) {
  const auto declares = [](const YamlNode& child) { return DeclaresEffects(child); };
  return node.Find(kEffectExtension) != nullptr || std::ranges::any_of(node.items, declares) ||
         std::ranges::any_of(node.members, declares, &YamlNode::Member::value);
}

// One action, carried out on what the earlier ones left.
class OverlayAction {
 public:
  OverlayAction(MapReader& map, YamlNode& description, std::vector<std::string>& notes)
      : map_(map), description_(description), notes_(notes) {}

  void Run() {
    map_.Need("target", "a JSONPath such as $.paths['/orders'].post");
    const auto target = map_.Text("target");
    const bool is_removal = map_.Bool("remove").value_or(false);
    const YamlNode* const update = map_.Get("update");
    (void)map_.Get("description");
    KnowExtensions(map_);
    map_.Finish();
    if (!target) return;
    const auto path = JsonPath::Parse(*target);
    if (!path) return Refuse("target", path.error());
    if (!is_removal && update == nullptr) return Refuse("target", "has neither update nor remove");
    const std::vector<SelectedNode> selected = path->Select(description_);
    if (selected.empty()) return SelectsNothing(*target, is_removal ? nullptr : update);
    for (const SelectedNode& one : selected) {
      if (one.node->kind == YamlNode::Kind::kMap || one.node->kind == YamlNode::Kind::kList) {
        continue;
      }
      return Refuse("target", *target + " selects a value at " + NameOf(*one.node) +
                                  "; a map or a list is what can be changed or removed");
    }
    if (is_removal) return Remove(selected);
    // From the end: what grows may move what stands in it.
    for (auto one = selected.rbegin(); one != selected.rend(); ++one) Update(*one->node, *update);
  }

 private:
  void Refuse(std::string_view word, std::string message) {
    map_.problems().Error(map_.PlaceOf(word), map_.KeyOf(word), std::move(message));
  }
  std::string NameOf(const YamlNode& node) const { return map_.problems().NameOf(node.place); }

  void SelectsNothing(const std::string& target, const YamlNode* update) {
    if (update != nullptr && DeclaresEffects(*update)) {
      Refuse("target", target +
                           " selects nothing in the description, so what is declared there "
                           "would be lost; to add a path, update $.paths");
    } else {
      notes_.push_back("the overlay's target " + target + " selects nothing");
    }
  }

  // From the end, so that the places of the others stay what they are.
  void Remove(const std::vector<SelectedNode>& selected) {
    for (auto one = selected.rbegin(); one != selected.rend(); ++one) {
      if (one->parent == nullptr) return Refuse("target", "the whole description is not removed");
      const auto at = static_cast<std::ptrdiff_t>(one->index);
      if (one->parent->kind == YamlNode::Kind::kMap) {
        one->parent->members.erase(one->parent->members.begin() + at);
      } else {
        one->parent->items.erase(one->parent->items.begin() + at);
      }
    }
  }

  void Update(YamlNode& target, const YamlNode& update) {
    if (target.kind == YamlNode::Kind::kList) {
      target.items.push_back(update);
    } else if (update.kind == YamlNode::Kind::kMap) {
      Merge(target, update);
    } else {
      Refuse("update", "a map is merged into the map that the target selects");
    }
  }
  void Merge(YamlNode& target, const YamlNode& update) {
    for (const auto& member : update.members) {
      const auto found = std::ranges::find(target.members, member.name, &YamlNode::Member::name);
      if (found == target.members.end()) {
        target.members.push_back(member);
      } else {
        MergeValue(*found, member);
      }
    }
  }
  void MergeValue(YamlNode::Member& target, const YamlNode::Member& update) {
    using Kind = YamlNode::Kind;
    YamlNode& value = target.value;
    const auto is_simple = [](Kind kind) { return kind == Kind::kNull || kind == Kind::kScalar; };
    if (is_simple(value.kind) && is_simple(update.value.kind)) {
      value = update.value;
    } else if (value.kind == Kind::kMap && update.value.kind == Kind::kMap) {
      Merge(value, update.value);
    } else if (value.kind == Kind::kList && update.value.kind == Kind::kList) {
      std::ranges::copy(update.value.items, std::back_inserter(value.items));
    } else {
      map_.problems().Error(
          update.name_place, map_.KeyOf("update"),
          update.name + " is of another kind than at " + NameOf(value) + "; remove that one first");
    }
  }

  MapReader& map_;
  YamlNode& description_;
  std::vector<std::string>& notes_;
};

void ReadOverlayInfo(MapReader& root) {
  const YamlNode* const info = root.Need("info", "its title and version");
  if (info == nullptr) return;
  MapReader map(*info, "info", root.problems());
  map.Need("title", "what it is for");
  map.Need("version", "its own version");
  (void)map.Get("description");
  KnowExtensions(map);
  map.Finish();
}

}  // namespace

void ApplyOverlay(const YamlNode& overlay, YamlNode& description, std::vector<std::string>& notes,
                  Problems& problems) {
  MapReader root(overlay, "", problems);
  if (overlay.kind != YamlNode::Kind::kMap) return;
  const YamlNode* const version = root.Need("overlay", "accepted: overlay: 1.0.0");
  if (version != nullptr && !version->text.starts_with("1.0.")) {
    problems.Error(version->place, "overlay",
                   "overlays of version " + version->text + " are not read; accepted: 1.0.0");
    return;
  }
  ReadOverlayInfo(root);
  (void)root.Get("extends");
  KnowExtensions(root);
  const YamlNode* const actions = root.Need("actions", "what is changed");
  root.Finish();
  if (actions == nullptr) return;
  if (actions->kind != YamlNode::Kind::kList || actions->items.empty()) {
    problems.Error(actions->place, "actions", "a list of actions is accepted here");
    return;
  }
  for (std::size_t i = 0; i < actions->items.size(); ++i) {
    MapReader map(actions->items[i], "actions[" + std::to_string(i) + ']', problems);
    if (actions->items[i].kind == YamlNode::Kind::kMap) {
      OverlayAction(map, description, notes).Run();
    }
  }
}

}  // namespace recourse
