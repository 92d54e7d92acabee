// The interfaces of CANN with which an operator is defined, tiled and inferred: names, arguments and results as its public
// documentation has them, as far as operator packages of autofuse use them.  What is behind them is of our own.
#ifndef AUTOFUSE_FAKE_OP_DEF_REGISTRY_H
#define AUTOFUSE_FAKE_OP_DEF_REGISTRY_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_BF16 = 27,
    DT_UNDEFINED = 28
};

enum Format { FORMAT_ND = 2 };

}  // namespace ge

namespace fe {

// What PlatformAscendC reads.
struct PlatFormInfos {
    uint32_t vector_cores = 0;
    uint64_t ub_bytes = 0;
    uint32_t system_workspace = 0;
};

}  // namespace fe

namespace gert {

class Shape {
public:
    static constexpr size_t kMaxDimNum = 25;

    Shape() = default;
    size_t GetDimNum() const { return rank_; }
    int64_t GetDim(size_t i) const { return i < rank_ ? dims_[i] : 0; }
    void SetDimNum(size_t rank) { rank_ = rank < kMaxDimNum ? rank : kMaxDimNum; }
    void SetDim(size_t i, int64_t dim) {
        if (i < rank_) {
            dims_[i] = dim;
        }
    }
    Shape& AppendDim(int64_t dim) {
        if (rank_ < kMaxDimNum) {
            dims_[rank_++] = dim;
        }
        return *this;
    }

private:
    size_t rank_ = 0;
    int64_t dims_[kMaxDimNum] = {};
};

class StorageShape {
public:
    StorageShape() = default;
    explicit StorageShape(const Shape& shape) : origin_(shape), storage_(shape) {}
    const Shape& GetOriginShape() const { return origin_; }
    const Shape& GetStorageShape() const { return storage_; }

private:
    Shape origin_;
    Shape storage_;
};

class RuntimeAttrs {
public:
    const int64_t* GetInt(size_t i) const { return i < values_.size() ? &values_[i] : nullptr; }
    size_t GetAttrNum() const { return values_.size(); }

    std::vector<int64_t> values_;
};

class TilingData {
public:
    void* GetData() { return bytes_.data(); }
    size_t GetDataSize() const { return size_; }
    size_t GetCapacity() const { return bytes_.size() * sizeof(uint64_t); }
    void SetDataSize(size_t size) { size_ = size; }

private:
    std::vector<uint64_t> bytes_ = std::vector<uint64_t>(8192);
    size_t size_ = 0;
};

class TilingContext {
public:
    const StorageShape* GetInputShape(size_t i) const { return i < inputs_.size() ? &inputs_[i] : nullptr; }
    const RuntimeAttrs* GetAttrs() const { return &attributes_; }
    fe::PlatFormInfos* GetPlatformInfo() const { return platform_; }
    TilingData* GetRawTilingData() { return &data_; }
    template <typename T> T* GetTilingData() {
        if (sizeof(T) > data_.GetCapacity()) {
            return nullptr;
        }
        data_.SetDataSize(sizeof(T));
        return static_cast<T*>(data_.GetData());
    }
    size_t* GetWorkspaceSizes(size_t count) {
        workspaces_.resize(count);
        return workspaces_.data();
    }
    ge::graphStatus SetTilingKey(uint64_t key) {
        key_ = key;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetBlockDim(uint32_t cores) {
        cores_ = cores;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetScheduleMode(uint32_t mode) {
        mode_ = mode;
        return ge::GRAPH_SUCCESS;
    }

    std::vector<StorageShape> inputs_;
    RuntimeAttrs attributes_;
    mutable fe::PlatFormInfos* platform_ = nullptr;
    TilingData data_;
    std::vector<size_t> workspaces_;
    uint64_t key_ = 0;
    uint32_t cores_ = 0;
    uint32_t mode_ = 0;
};

class InferShapeContext {
public:
    const Shape* GetInputShape(size_t i) const { return i < inputs_.size() ? &inputs_[i] : nullptr; }
    Shape* GetOutputShape(size_t i) { return i < outputs_.size() ? &outputs_[i] : nullptr; }
    const RuntimeAttrs* GetAttrs() const { return &attributes_; }

    std::vector<Shape> inputs_;
    std::vector<Shape> outputs_;
    RuntimeAttrs attributes_;
};

class InferDataTypeContext {
public:
    ge::DataType GetInputDataType(size_t i) const { return i < inputs_.size() ? inputs_[i] : ge::DT_UNDEFINED; }
    ge::graphStatus SetOutputDataType(size_t i, const ge::DataType type) {
        if (i >= outputs_.size()) {
            return ge::GRAPH_FAILED;
        }
        outputs_[i] = type;
        return ge::GRAPH_SUCCESS;
    }

    std::vector<ge::DataType> inputs_;
    std::vector<ge::DataType> outputs_;
};

}  // namespace gert

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };

class OpParamDef {
public:
    explicit OpParamDef(const char* name) : name_(name) {}
    OpParamDef& ParamType(Option option) {
        option_ = option;
        return *this;
    }
    OpParamDef& DataType(std::vector<ge::DataType> types) {
        types_ = std::move(types);
        return *this;
    }
    OpParamDef& Format(std::vector<ge::Format> formats) {
        formats_ = std::move(formats);
        return *this;
    }
    OpParamDef& AutoContiguous() {
        contiguous_ = true;
        return *this;
    }

    std::string name_;
    Option option_ = IGNORE;
    std::vector<ge::DataType> types_;
    std::vector<ge::Format> formats_;
    bool contiguous_ = false;
};

class OpAttrDef {
public:
    explicit OpAttrDef(const char* name) : name_(name) {}
    OpAttrDef& AttrType(Option option) {
        option_ = option;
        return *this;
    }
    OpAttrDef& Int() {
        is_int_ = true;
        return *this;
    }

    std::string name_;
    Option option_ = IGNORE;
    bool is_int_ = false;
};

using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
using ShapeFunction = ge::graphStatus (*)(gert::InferShapeContext*);
using TypeFunction = ge::graphStatus (*)(gert::InferDataTypeContext*);

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(TilingFunction function) {
        tiling_ = function;
        return *this;
    }
    void AddConfig(const char* unit) { units_.emplace_back(unit); }

    TilingFunction tiling_ = nullptr;
    std::vector<std::string> units_;
};

class OpDef {
public:
    explicit OpDef(const char* type) : type_(type) {}
    OpParamDef& Input(const char* name) { return inputs_.emplace_back(name); }
    OpParamDef& Output(const char* name) { return outputs_.emplace_back(name); }
    OpAttrDef& Attr(const char* name) { return attributes_.emplace_back(name); }
    OpDef& SetInferShape(ShapeFunction function) {
        shapes_ = function;
        return *this;
    }
    OpDef& SetInferDataType(TypeFunction function) {
        dtypes_ = function;
        return *this;
    }
    OpAICoreDef& AICore() { return aicore_; }

    std::string type_;
    std::deque<OpParamDef> inputs_;
    std::deque<OpParamDef> outputs_;
    std::deque<OpAttrDef> attributes_;
    ShapeFunction shapes_ = nullptr;
    TypeFunction dtypes_ = nullptr;
    OpAICoreDef aicore_;
};

// The operators of this library.
__attribute__((visibility("hidden"))) inline std::vector<OpDef>& Registry() {
    static std::vector<OpDef> operators;
    return operators;
}

struct Registered {
    explicit Registered(const OpDef& op) { Registry().push_back(op); }
};

}  // namespace ops

// How the fake finds them.
extern "C" __attribute__((visibility("default"), weak)) std::vector<ops::OpDef>* autofuse_fake_operators() {
    return &ops::Registry();
}

#define OP_ADD(type) static const ::ops::Registered autofuse_fake_registered_##type{type(#type)}

#endif
